"""The experiments of "Hyperparameter Learning via Distributional Transfer" (NeurIPS 2019).

    python benchmarks/distbo.py toy --jobs 2 --figure docs/images/distbo-toy.png
    python benchmarks/distbo.py interactions --jobs 2 --figure docs/images/distbo-interactions.png
    python benchmarks/distbo.py protein --jobs 2 --figure docs/images/distbo-protein.png
    python benchmarks/distbo.py cost

- `toy`: section 5.1. Fifteen past tasks with one unlabelled column each, of which three have a
  mean near that of the target (-0.25) and twelve one near 4; the loss depends on the mean alone.
  The means are drawn once, the rows and the past evaluations anew for each repetition.
- `interactions`: section 5.2, equation (1). Four regression tasks whose columns and pairs of
  columns look alike; what matters is a product of three columns. Column i + 2 has the sign of the
  product of the first two, so the product of the three is never negative and the logarithm
  exists. Kernel ridge regression with seven hyperparameters is fitted to 400 rows and scored on
  400 others (the paper: 5000), the embeddings see 2000.
- `protein`: section 5.3, `$RANKWISE_DATA/distbo/protein.npz`. Seven proteins, each in turn the
  target, an SVM with the Jaccard kernel and a random forest, accuracy on 40 % of the rows.
  Configurations are those of a table that is computed once: 60 of the SVM, 100 of the forest.
- `cost`: milliseconds of a step of learning by the number of past evaluations.

Past evaluations are those of `gp`. Results are kept in `--out`, one file per repetition and
method, and only missing ones are computed. One thread per process. `--quick` says little.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

os.environ.update({f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS")})

import joblib
import numpy as np
from scipy.stats import rankdata
from transfer import begin, markdown

from rankwise import Context, Encoder, Optimizer, Task
from rankwise.history.task import TaskSet

GP = ("dist-gp", "manual-gp", "multi-gp", "init-gp", "none-gp")
BLR = ("dist-blr", "manual-blr", "multi-blr", "init-blr", "none-blr")
RANKING = ("dre", "dre-data")
OTHERS = ("random",)
METHODS = (*GP, *BLR, *OTHERS, *RANKING)
SETTINGS: dict[str, Any] = {name: {"training": {"steps": 500}} for name in RANKING}
TRIALS = {"toy": 15, "interactions": 15, "svm": 10, "forest": 10}
PAST = {"toy": 30, "interactions": 125, "svm": 20, "forest": 20}
DESIGN = {"none-gp": 3, "none-blr": 3, "multi-gp": 1, "multi-blr": 1}  # random trials first
_TARGET = -0.25  # mean of the toy's target


@dataclass
class Problem:
    """One target with its past.

    Attributes:
        encoder: of the space.
        losses: of encoded configurations (n, d): (n,).
        context: of the target's data.
        past: tasks with contexts.
        optimum: the smallest loss there is, as far as is known.
        pool: the configurations (m, d) to choose from; None: all of the space.
    """

    encoder: Encoder
    losses: Callable[[np.ndarray], np.ndarray]
    context: Context
    past: list[Task]
    optimum: float
    pool: np.ndarray | None = None


# ---------------------------------------------------------------------- running


def run(problem: Problem, method: str, seed: int, trials: int) -> dict[str, Any]:
    """Losses of the trials, and how similar past tasks were held to be before each."""
    knows = method not in ("none-gp", "none-blr", "random")
    past: dict[str, Any] = {"tasks": TaskSet(tuple(problem.past))} if knows else {}
    past |= SETTINGS.get(method, {})
    start = time.process_time()
    optimizer = Optimizer(
        problem.encoder, method=method, seed=seed, context=problem.context, **past
    )
    learning = time.process_time() - start
    rows: list[np.ndarray] = []
    found: list[float] = []
    similar = []
    for _ in range(trials):
        history = Task.of(
            np.reshape(rows, (-1, problem.encoder.n_columns)), found, context=problem.context
        )
        if method.startswith(("dist", "manual", "multi")):
            similar.append(optimizer.strategy.similar_tasks(history))
        rows.append(_next(problem, optimizer, history, seed))
        found.append(float(problem.losses(rows[-1][None])[0]))
    return {"losses": found, "similar": similar, "learning": learning}


def _next(problem: Problem, optimizer: Optimizer, history: Task, seed: int) -> np.ndarray:
    """The next configuration (d,); who knows nothing begins with random ones."""
    strategy, rng = optimizer.strategy, np.random.default_rng([seed, len(history)])
    d, design = problem.encoder.n_columns, DESIGN.get(optimizer.method, 0)
    if problem.pool is None:
        if len(history) < design:
            return problem.encoder.sample(1, rng)[0]
        return strategy.propose(history, np.empty((0, d)), rng)
    seen = {row.tobytes() for row in history.X}
    free = np.array([row for row in problem.pool if row.tobytes() not in seen])
    if len(history) < design:
        return free[rng.integers(len(free))]
    return free[strategy.choose(history, free, rng)]


def evaluated(
    encoder: Encoder,
    losses: Callable[[np.ndarray], np.ndarray],
    count: int,
    seed: int,
    pool: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Configurations (count, d) that `gp` tries, and their losses."""
    nothing = Problem(encoder, losses, Context({}), [], 0.0, pool)
    optimizer = Optimizer(encoder, method="none-gp", seed=seed)
    X: list[np.ndarray] = []
    y: list[float] = []
    for _ in range(count):
        history = Task.of(np.reshape(X, (-1, encoder.n_columns)), y)
        X.append(_next(nothing, optimizer, history, seed))
        y.append(float(losses(X[-1][None])[0]))
    return np.array(X), np.array(y)


# ---------------------------------------------------------------------- the toy


def toy(repetition: int, options: argparse.Namespace) -> Problem:
    """Section 5.1: the loss depends on the mean of an unlabelled column."""
    encoder = Encoder({"theta": (-8.0, 8.0)})
    means = np.random.default_rng(0).normal(np.repeat([0.0, 4.0], [3, 12]), 1.0)
    rng = np.random.default_rng([repetition, 1])

    def task(mean: float) -> tuple[np.ndarray, Callable[[np.ndarray], np.ndarray]]:
        rows = rng.normal(mean, 1.0, size=(500, 1))
        centre = rows.mean()
        return rows, lambda X: -np.exp(-0.5 * (16.0 * X[:, 0] - 8.0 - centre) ** 2)

    past = []
    for i, mean in enumerate(means):
        rows, losses = task(mean)
        X, y = evaluated(encoder, losses, PAST["toy"], 100 * repetition + i)
        name = f"{'near' if i < 3 else 'far'} {i} ({mean:.2f})"
        past.append(Task.of(X, y, name=name, context=Context.of(rows, standardize=False)))
    rows, losses = task(_TARGET)
    return Problem(encoder, losses, Context.of(rows, standardize=False), past, -1.0)


# ---------------------------------------------------------------------- interactions


def interactions(repetition: int, options: argparse.Namespace) -> Problem:
    """Section 5.2: what matters about the data is a product of three columns."""
    ranges = {"alpha": (1e-4, 10.0), **{f"bandwidth{j}": (0.5, 50.0) for j in range(1, 7)}}
    encoder = Encoder({name: (*limits, "log") for name, limits in ranges.items()})
    low, high = np.log(list(ranges.values())).T
    rng = np.random.default_rng([repetition, 2])

    def task(i: int) -> tuple[Context, Callable[[np.ndarray], np.ndarray]]:
        X, y = process(i, 5000, rng)
        fit, score = (X[:400], y[:400]), (X[400:800], y[400:800])

        def losses(U: np.ndarray) -> np.ndarray:
            return np.array([-ridge(np.exp(low + u * (high - low)), fit, score) for u in U])

        return Context.of(X, y, classification=False), losses

    past = []
    for i in range(1, 5):
        context, losses = task(i)
        X, y = evaluated(encoder, losses, PAST["interactions"], 100 * repetition + i)
        past.append(Task.of(X, y, name=f"source {i}", context=context))
    context, losses = task(2)
    best = evaluated(encoder, losses, 60, 100 * repetition + 9)[1].min()
    best = min(best, float(losses(past[1].X[np.argsort(past[1].losses)[:20]]).min()))
    return Problem(encoder, losses, context, past, best)


def process(i: int, size: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Equation (1) of the paper: rows (size, 6) and targets (size,) of task i, from 1 to 4."""
    X = rng.normal(0.0, 2.0, size=(size, 6))
    X[:, i + 1] = np.sign(X[:, 0] * X[:, 1]) * np.abs(X[:, i + 1])
    product = X[:, 0] * X[:, 1] * X[:, i + 1]  # never negative
    return X, np.log1p(product**3) + rng.normal(0.0, 0.5, size=size)


def ridge(
    values: np.ndarray,
    fit: tuple[np.ndarray, np.ndarray],
    score: tuple[np.ndarray, np.ndarray],
) -> float:
    """R^2 of kernel ridge regression with a bandwidth per column, at least -1."""
    alpha, widths = values[0], values[1:]
    A, B = fit[0] / widths, score[0] / widths
    squares = (A * A).sum(1)
    K = np.exp(-0.5 * np.maximum(squares[:, None] + squares - 2 * A @ A.T, 0.0))
    cross = np.exp(-0.5 * np.maximum((B * B).sum(1)[:, None] + squares - 2 * B @ A.T, 0.0))
    mean = fit[1].mean()
    weights = np.linalg.solve(K + alpha * np.eye(len(K)), fit[1] - mean)
    residual = score[1] - mean - cross @ weights
    return max(
        1.0 - float(residual @ residual) / float(np.square(score[1] - score[1].mean()).sum()), -1.0
    )


# ---------------------------------------------------------------------- proteins


def protein_space(learner: str) -> Encoder:
    if learner == "svm":
        return Encoder({"C": (2.0**-7, 2.0**7, "log")})
    return Encoder(
        {
            "n_trees": (1, 200),
            "max_depth": (1, 32),
            "min_samples_split": (2, 20),
            "min_samples_leaf": (1, 20),
        }
    )


def protein_table(learner: str, options: argparse.Namespace) -> dict[str, Any]:
    """Configurations (m, d) and the loss of each for each protein (7, m), computed once."""
    path = options.out / f"{learner}-table.json"
    if path.exists():
        return json.loads(path.read_text())
    encoder = protein_space(learner)
    drawn = encoder.sample(100, np.random.default_rng(0))
    X = np.linspace(0.0, 1.0, 60)[:, None] if learner == "svm" else drawn
    configurations = encoder.decode(X)
    losses = joblib.Parallel(n_jobs=options.jobs)(
        joblib.delayed(_protein_losses)(k, learner, configurations, options.data) for k in range(7)
    )
    table = {"X": np.asarray(encoder.encode(configurations)).tolist(), "losses": losses}
    path.write_text(json.dumps(table))
    return table


def protein_data(k: int, data: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, classes, and which rows (60 %) a learner is fitted to."""
    file = np.load(data / "distbo" / "protein.npz")
    X, y = file[f"X_{k}"].astype(float), file[f"y_{k}"].astype(int)
    order = np.random.default_rng(k).permutation(len(y))
    return X, y, order[: int(0.6 * len(y))]


def _protein_losses(
    k: int, learner: str, configurations: Sequence[dict[str, Any]], data: Path
) -> list[float]:
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.svm import SVC

    X, y, fit = protein_data(k, data)
    score = np.setdiff1d(np.arange(len(y)), fit)
    found = []
    if learner == "svm":
        common = X @ X[fit].T
        union = X.sum(1)[:, None] + X[fit].sum(1) - common
        K = common / np.maximum(union, 1.0)
    for configuration in configurations:
        if learner == "svm":
            model = SVC(C=configuration["C"], kernel="precomputed").fit(K[fit], y[fit])
            accuracy = model.score(K[score], y[score])
        else:
            settings = dict(configuration)
            model = RandomForestClassifier(settings.pop("n_trees"), random_state=0, **settings)
            accuracy = model.fit(X[fit], y[fit]).score(X[score], y[score])
        found.append(-float(accuracy))
    return found


def protein(repetition: int, options: argparse.Namespace, learner: str) -> Problem:
    """Section 5.3: the protein of that number modulo 7 is the target."""
    table, encoder = protein_table(learner, options), protein_space(learner)
    pool, losses = np.array(table["X"]), np.array(table["losses"])
    target = repetition % 7

    def lookup(k: int) -> Callable[[np.ndarray], np.ndarray]:
        where = {row.tobytes(): j for j, row in enumerate(pool)}
        return lambda X: np.array([losses[k, where[row.tobytes()]] for row in X])

    def context(k: int) -> Context:
        X, y, fit = protein_data(k, options.data)
        return Context.of(X[fit], y[fit], classification=True)

    past = []
    for k in range(7):
        if k != target:
            X, y = evaluated(encoder, lookup(k), PAST[learner], 100 * repetition + k, pool)
            past.append(Task.of(X, y, name=f"protein {k}", context=context(k)))
    best = float(losses[target].min())
    return Problem(encoder, lookup(target), context(target), past, best, pool)


# ---------------------------------------------------------------------- tables and figures

MAKERS: dict[str, Callable[[int, argparse.Namespace], Problem]] = {
    "toy": toy,
    "interactions": interactions,
    "svm": lambda repetition, options: protein(repetition, options, "svm"),
    "forest": lambda repetition, options: protein(repetition, options, "forest"),
}


def repeat(name: str, repetition: int, options: argparse.Namespace) -> list[dict[str, Any]]:
    """What each method did in a repetition, from files or computed now."""
    begin()
    warnings.simplefilter("ignore")
    problem: Problem | None = None
    found = []
    for method in options.methods:
        path = options.out / f"{name}-{repetition}-{method}.json"
        if not path.exists():
            problem = problem or MAKERS[name](repetition, options)
            record = run(problem, method, repetition, TRIALS[name])
            path.write_text(json.dumps({**record, "optimum": problem.optimum}))
            print(f"{path.stem}: {min(record['losses']):.4f}", flush=True)
        found.append(json.loads(path.read_text()))
    return found


def report(name: str, found: list[list[dict[str, Any]]], methods: Sequence[str]) -> str:
    """Mean of the best value so far over that of the optimum, and mean ranks within a family."""
    best = np.array([[np.minimum.accumulate(r["losses"]) for r in row] for row in found])
    optimum = np.array([[r["optimum"] for r in row] for row in found])
    share = best / np.minimum(optimum, best.min(axis=(1, 2))[:, None])[:, :, None]
    shown = [k for k in (1, 2, 3, 5, 10, best.shape[2]) if k <= best.shape[2]]
    rows = []
    for j, method in enumerate(methods):
        mine = share[:, j]
        within = int((mine[:, 2] >= 0.95).sum())
        learning = np.mean([row[j]["learning"] for row in found])
        rows.append(
            [method, *(f"{mine[:, k - 1].mean():.3f}" for k in shown), within, f"{learning:.1f}"]
        )
    header = ["method", *(f"after {k}" for k in shown), "95 % within 3", "seconds to learn"]
    parts = [
        f"{name}, {len(found)} repetitions: best so far over the optimum",
        markdown(header, rows),
    ]
    for family, members in (("GP", GP), ("BLR", BLR), ("ranking", ("dist-gp", *RANKING))):
        chosen = [j for j, m in enumerate(methods) if m in members or m in OTHERS]
        ranks = rankdata(best[:, chosen, :10].round(10), axis=1).mean(axis=(0, 2))
        order = np.argsort(ranks)
        listed = ", ".join(f"{methods[chosen[k]]} {ranks[k]:.2f}" for k in order)
        parts.append(f"Mean rank over the first ten trials, {family}: {listed}")
    return "\n\n".join(parts) + "\n\n" + similarity(name, found, methods)


def similarity(name: str, found: list[list[dict[str, Any]]], methods: Sequence[str]) -> str:
    """How often the right past tasks are held to be the most similar, before the first trial."""
    right = {"toy": ("near", 3), "interactions": ("source 2", 1)}.get(name)
    if right is None:
        return ""
    prefix, count = right
    lines = []
    for j, method in enumerate(methods):
        known = [row[j]["similar"] for row in found]
        if not all(known) or known[0][0] is None:
            continue
        hits = [
            sum(all(n.startswith(prefix) for n in list(s[k])[:count]) for s in known)
            for k in (0, min(5, len(known[0]) - 1), -1)
        ]
        lines.append([method, *hits])
    header = ["right tasks on top", "before trial 1", "before trial 6", "before the last"]
    return markdown(header, lines)


def draw(
    panels: dict[str, list[list[dict[str, Any]]]], methods: Sequence[str], path: Path
) -> None:
    """Best so far by trial, a row per experiment: GP, BLR, and dist-gp's similarities."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(len(panels), 3, figsize=(11, 3.0 * len(panels)), squeeze=False)
    kinds = ("dist", "manual", "multi", "init", "none", "random")
    colours = {kind: f"C{k}" for k, kind in enumerate(kinds)}
    for row, (name, found) in zip(axes, panels.items(), strict=True):
        best = -np.array([[np.minimum.accumulate(r["losses"]) for r in line] for line in found])
        steps = np.arange(1, best.shape[2] + 1)
        for axis, family in zip(row, (GP, BLR), strict=False):
            for j, method in enumerate(methods):
                if method in family or method in OTHERS:
                    colour = colours[method.partition("-")[0]]
                    axis.plot(steps, best[:, j].mean(0), color=colour, label=method, lw=1.5)
            axis.set_title(f"{name}: best so far", fontsize=9)
            axis.legend(fontsize=7, frameon=False)
        if name in ("svm", "forest"):  # each protein is the target in turn: no common past to show
            row[2].set_visible(False)
        elif "dist-gp" in methods:
            at = list(methods).index("dist-gp")
            for source in sorted(found[0][at]["similar"][0]):
                curves = [[s[source] for s in line[at]["similar"]] for line in found]
                near = source.startswith(("near", "source 2"))
                colour = "#c44e52" if near else "0.7"
                mean = np.mean(curves, axis=0)
                row[2].plot(steps, mean, color=colour, label=source if near else None, lw=1.2)
            row[2].set_title("similarity learnt by dist-gp", fontsize=9)
            row[2].set_ylim(-0.02, 1.02)
            row[2].legend(fontsize=7, frameon=False)
        for axis in row:
            axis.set_xlabel("trial", fontsize=8)
            axis.tick_params(labelsize=7)
            axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(path, dpi=150)


def cost(options: argparse.Namespace) -> str:
    """Seconds of a step of learning by the number of past evaluations."""
    begin()
    warnings.simplefilter("ignore")
    encoder, rng = Encoder({"x": (0.0, 1.0), "y": (0.0, 1.0)}), np.random.default_rng(0)
    sizes = (20, 40) if options.quick else (500, 1000, 2000, 4000, 8000, 16000)
    rows = []
    for size in sizes:
        past = []
        for k in range(10):
            X = rng.random((size // 10, 2))
            data = Context.of(rng.normal(k, 1.0, (2000, 3)), rng.random(2000), handmade=False)
            past.append(Task.of(X, ((X - k / 10) ** 2).sum(1), name=str(k), context=data))
        row: list[object] = [size]
        for method, extra in (("dist-gp", {"rows": 100_000}), ("dist-gp", {}), ("dist-blr", {})):
            if extra and size > 2000:  # cubic
                row.append("-")
                continue
            start = time.process_time()
            optimizer = Optimizer(
                encoder, method=method, tasks=TaskSet(tuple(past)), seed=0, steps=50, **extra
            )
            steps = len(optimizer.strategy.learner.losses)
            row.append(1e3 * (time.process_time() - start) / steps)
        rows.append(row)
    header = ["past evaluations", "dist-gp, all of them", "dist-gp", "dist-blr"]
    return "Milliseconds per step of learning\n\n" + markdown(header, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("experiment", choices=("toy", "interactions", "protein", "cost"))
    parser.add_argument("--repetitions", type=int, help="by default 10, of `protein` 14")
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("runs/distbo"))
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("RANKWISE_DATA", "data")))
    parser.add_argument("--figure", type=Path, help="file of a picture")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    options.methods = options.methods.split(",")
    options.out.mkdir(parents=True, exist_ok=True)
    print(
        f"{date.today()}, {os.cpu_count()} cores, {options.jobs} at a time, Python "
        f"{platform.python_version()}\n"
    )
    if options.experiment == "cost":
        print(cost(options))
        return
    names = ("svm", "forest") if options.experiment == "protein" else (options.experiment,)
    repetitions = options.repetitions or (14 if options.experiment == "protein" else 10)
    if options.quick:
        repetitions, options.out = 1, options.out / "quick"
        options.out.mkdir(parents=True, exist_ok=True)
        TRIALS.update(dict.fromkeys(TRIALS, 3))
        PAST.update(dict.fromkeys(PAST, 6))
    panels = {}
    for name in names:
        if options.experiment == "protein":
            protein_table(name, options)
        panels[name] = joblib.Parallel(n_jobs=options.jobs)(
            joblib.delayed(repeat)(name, repetition, options) for repetition in range(repetitions)
        )
        print(report(name, panels[name], options.methods), "\n")
    if options.figure:
        draw(panels, options.methods, options.figure)


if __name__ == "__main__":
    main()
