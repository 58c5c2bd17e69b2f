"""Appendix C of "Hyperparameter Learning via Distributional Transfer", as far as it was missing.

    python benchmarks/distbo_more.py non-similar
    python benchmarks/distbo_more.py parkinson --csv parkinsons_updrs.data
    python benchmarks/distbo_more.py embedding
    python benchmarks/distbo_more.py network
    python benchmarks/distbo_more.py rows

- `non-similar` (C.4): the toy of section 5.1 with fifteen past tasks near 4, none near the target.
- `parkinson` (C.5): the public file of the UCI repository (Parkinsons Telemonitoring, 5875 rows of
  42 patients). Each patient is a regression task: total UPDRS from 16 voice measures and the time,
  kernel ridge regression with the width and the regularization, R^2 on 40 % of the rows. Each
  patient in turn is the target; ten past evaluations of each other one by `gp`.
- `embedding` (C.1): marginal and conditional, joint, cross-covariance, and learnt with hand-made
  features, on the problem of section 5.2.
- `network` (C.6): hidden units and layers of the feature map, same problem.
- `rows`: section 5.2 with 2500 rows to fit and 2500 to score, which is the paper's 5000, and fewer
  past evaluations, so that it ends.

Results are kept in `--out`, one file per repetition and variant, and only missing ones are
computed. `--summary FILE` adds a table to a results file. One thread.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import time
import warnings
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

os.environ.update({f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS")})

import distbo
import numpy as np
from distbo import Problem, evaluated, process, ridge, run
from torch import nn
from transfer import begin, markdown

from rankwise import Context, Encoder, Task

# ---------------------------------------------------------------------- problems


def non_similar(repetition: int, count: int = 15) -> Problem:
    """C.4: no past task has a mean near that of the target."""
    encoder = Encoder({"theta": (-8.0, 8.0)})
    means = np.random.default_rng(1).normal(4.0, 1.0, size=count)
    rng = np.random.default_rng([repetition, 4])

    def task(mean: float) -> tuple[np.ndarray, Callable[[np.ndarray], np.ndarray]]:
        rows = rng.normal(mean, 1.0, size=(500, 1))
        centre = rows.mean()
        return rows, lambda X: -np.exp(-0.5 * (16.0 * X[:, 0] - 8.0 - centre) ** 2)

    past = []
    for i, mean in enumerate(means):
        rows, losses = task(mean)
        X, y = evaluated(encoder, losses, distbo.PAST["toy"], 100 * repetition + i)
        past.append(Task.of(X, y, name=f"far {i}", context=Context.of(rows, standardize=False)))
    rows, losses = task(-0.25)
    return Problem(encoder, losses, Context.of(rows, standardize=False), past, -1.0)


def interactions(repetition: int, rows: int = 400, evaluations: int = 125) -> Problem:
    """Section 5.2, with that many rows to fit and to score."""
    ranges = {"alpha": (1e-4, 10.0), **{f"bandwidth{j}": (0.5, 50.0) for j in range(1, 7)}}
    encoder = Encoder({name: (*limits, "log") for name, limits in ranges.items()})
    low, high = np.log(list(ranges.values())).T
    rng = np.random.default_rng([repetition, 2])

    def task(i: int) -> tuple[Context, Callable[[np.ndarray], np.ndarray]]:
        X, y = process(i, 5000, rng)
        fit, score = (X[:rows], y[:rows]), (X[rows : 2 * rows], y[rows : 2 * rows])

        def losses(U: np.ndarray) -> np.ndarray:
            return np.array([-ridge(np.exp(low + u * (high - low)), fit, score) for u in U])

        return Context.of(X, y, classification=False), losses

    past = []
    for i in range(1, 5):
        context, losses = task(i)
        # Random configurations: the same for all variants, and cheaper than those of `gp`.
        X = encoder.sample(evaluations, np.random.default_rng([repetition, i, 5]))
        past.append(Task.of(X, losses(X), name=f"source {i}", context=context))
    context, losses = task(2)
    best = float(losses(past[1].X[np.argsort(past[1].losses)[:20]]).min())
    return Problem(encoder, losses, context, past, best)


# ---------------------------------------------------------------------- Parkinson

TARGET, PATIENT = "total_UPDRS", "subject#"
LEFT_OUT = (PATIENT, "age", "sex", "motor_UPDRS", TARGET)


def read_parkinson(path: Path) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Rows (n, 17) and scores (n,) of each patient.

    Raises:
        ValueError: the file is not the one of the UCI repository.
    """
    with path.open(newline="", encoding="utf-8") as file:
        lines = [[cell.strip() for cell in line] for line in csv.reader(file) if line]
    if not lines or not {PATIENT, TARGET, "test_time", "PPE"} <= set(lines[0]):
        raise ValueError(
            f"{path} has no columns {PATIENT!r}, {TARGET!r}, 'test_time' and 'PPE': it must be "
            "parkinsons_updrs.data of the data set Parkinsons Telemonitoring (UCI, number 189)"
        )
    names = lines[0]
    table = np.array(lines[1:], dtype=float)
    columns = [k for k, name in enumerate(names) if name not in LEFT_OUT]
    patients = table[:, names.index(PATIENT)].astype(int)
    return {
        f"patient {p}": (
            table[patients == p][:, columns],
            table[patients == p][:, names.index(TARGET)],
        )
        for p in np.unique(patients)
    }


def parkinson(repetition: int, path: Path, evaluations: int = 10) -> Problem:
    """C.5: the patient of that number is the target; the partition is drawn anew each round."""
    data = read_parkinson(path)
    everything = np.concatenate([X for X, _ in data.values()])
    mean, deviation = everything.mean(axis=0), everything.std(axis=0)
    encoder = Encoder({"alpha": (1e-4, 10.0, "log"), "width": (0.5, 50.0, "log")})
    low, high = np.log([[1e-4, 0.5], [10.0, 50.0]])
    names = list(data)
    target = names[repetition % len(names)]

    def task(name: str) -> tuple[Context, Callable[[np.ndarray], np.ndarray]]:
        X, y = (data[name][0] - mean) / np.where(deviation > 0, deviation, 1.0), data[name][1]
        order = np.random.default_rng([repetition // len(names), names.index(name)])
        order = order.permutation(len(y))
        fit, score = order[: int(0.6 * len(y))], order[int(0.6 * len(y)) :]

        def losses(U: np.ndarray) -> np.ndarray:
            found = []
            for u in U:
                alpha, width = np.exp(low + u * (high - low))
                values = np.r_[alpha, np.full(X.shape[1], width)]
                found.append(-ridge(values, (X[fit], y[fit]), (X[score], y[score])))
            return np.array(found)

        return Context.of(X[fit], y[fit], classification=False), losses

    past = []
    for k, name in enumerate(names):
        if name != target:
            context, losses = task(name)
            X, y = evaluated(encoder, losses, evaluations, 100 * repetition + k)
            past.append(Task.of(X, y, name=name, context=context))
    context, losses = task(target)
    grid = np.stack(np.meshgrid(*[np.linspace(0, 1, 25)] * 2), -1).reshape(-1, 2)
    return Problem(encoder, losses, context, past, float(losses(grid).min()))


# ---------------------------------------------------------------------- variants


def feature_map(columns: int, units: tuple[int, ...], outputs: int = 10) -> nn.Module:
    """A feature map of tanh layers."""
    widths = [columns, *units]
    hidden = [part for a, b in pairwise(widths) for part in (nn.Linear(a, b), nn.Tanh())]
    return nn.Sequential(*hidden, nn.Linear(widths[-1], outputs))


BASELINES = ("dist-gp", "manual-gp", "multi-gp", "init-gp", "none-gp", "random")
Variants = dict[str, tuple[str, dict[str, Any]]]
PLAIN: Variants = {name: (name, {}) for name in BASELINES}
EMBEDDINGS: Variants = {
    "marginal and conditional": ("dist-gp", {}),
    "conditional": ("dist-gp", {"embedding": "conditional"}),
    "joint, rows [x, y]": ("dist-gp", {"embedding": "joint"}),
    "joint, cross-covariance": ("dist-gp", {"embedding": "cross"}),
    "with hand-made features": ("dist-gp", {"handmade": True}),
    "hand-made features": ("manual-gp", {}),
}
NETWORKS: Variants = {
    "20 (the paper's)": ("dist-gp", {}),
    **{
        ", ".join(map(str, units)): ("dist-gp", {"network": partial(feature_map, 6, units)})
        for units in ((10,), (50,), (20, 20), (50, 50, 50))
    },
}
EXPERIMENTS: dict[str, tuple[Callable[..., Problem], Variants, int]] = {
    "non-similar": (non_similar, {**PLAIN, "dist-blr": ("dist-blr", {})}, 5),
    "parkinson": (parkinson, PLAIN, 42),
    "embedding": (interactions, EMBEDDINGS, 5),
    "network": (interactions, NETWORKS, 5),
    "rows": (
        partial(interactions, rows=2500, evaluations=12),
        {name: PLAIN[name] for name in ("dist-gp", "manual-gp", "init-gp", "random")},
        2,
    ),
}
"""Problem, variants and number of repetitions of each experiment."""


def repeat(
    name: str, repetition: int, make: Callable[[int], Problem], out: Path, trials: int
) -> list[dict[str, Any]]:
    """What each variant did in a repetition, from files or computed now."""
    problem: Problem | None = None
    found = []
    for number, (variant, (method, options)) in enumerate(EXPERIMENTS[name][1].items()):
        path = out / f"{name}-{repetition}-{number}.json"
        if not path.exists():
            problem = problem or make(repetition)
            distbo.SETTINGS[method] = options
            start = time.process_time()
            record = run(problem, method, repetition, trials)
            record |= {"optimum": problem.optimum, "seconds": time.process_time() - start}
            path.write_text(json.dumps(record))
            print(f"{name} {repetition}, {variant}: {record['seconds']:.0f} s", flush=True)
        found.append(json.loads(path.read_text()))
    return found


def table(name: str, found: list[list[dict[str, Any]]]) -> dict[str, Any]:
    """Best value so far over the optimum, and how often the right past task is on top."""
    best = np.array([[np.minimum.accumulate(r["losses"]) for r in row] for row in found])
    optimum = np.array([row[0]["optimum"] for row in found])
    share = best / np.minimum(optimum, best.min(axis=(1, 2)))[:, None, None]
    marks = [k for k in (1, 2, 3, 5, 10, 15) if k <= best.shape[2]]
    right = name in ("embedding", "network", "rows")
    rows = []
    for j, variant in enumerate(EXPERIMENTS[name][1]):
        cells: list[Any] = [variant, *(round(float(share[:, j, k - 1].mean()), 3) for k in marks)]
        if right:
            tops = [next(iter((row[j]["similar"] or [None])[0] or [None])) for row in found]
            cells.append(sum(top == "source 2" for top in tops) if any(tops) else None)
        rows.append(cells)
    plain = all(variant == method for variant, (method, _) in EXPERIMENTS[name][1].items())
    columns: list[dict[str, Any]] = [
        {"name": "method", "code": True} if plain else {"name": "variant"}
    ]
    columns += [{"name": f"after {k}", "digits": 3} for k in marks]
    columns += [{"name": "right task on top"}] if right else []
    count = f"mean of {len(found)} repetitions" if len(found) > 1 else "one repetition"
    about = f"Best value so far divided by the optimum, {count}"
    about += "; repetitions in which the right past task is on top before the first trial." * right
    return {"about": about.rstrip(".") + ".", "columns": columns, "rows": rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("experiment", choices=EXPERIMENTS)
    parser.add_argument("--csv", type=Path, help="file of Parkinsons Telemonitoring")
    parser.add_argument("--repetitions", type=int)
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--out", type=Path, default=Path("runs/distbo-more"))
    parser.add_argument("--summary", type=Path, help="results file that gets the table")
    options = parser.parse_args()
    name = options.experiment
    make, _, repetitions = EXPERIMENTS[name]
    if name == "parkinson":
        if options.csv is None:
            parser.error("parkinson needs --csv, the file parkinsons_updrs.data")
        make = partial(make, path=options.csv)
    options.out.mkdir(parents=True, exist_ok=True)
    begin()
    warnings.simplefilter("ignore")
    found = [
        repeat(name, k, make, options.out, options.trials)
        for k in range(options.repetitions or repetitions)
    ]
    summary = table(name, found)
    header = [column["name"] for column in summary["columns"]]
    print(markdown(header, summary["rows"]))
    if options.summary:
        content = json.loads(options.summary.read_text("utf-8"))
        content["tables"][name] = summary
        text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
        options.summary.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
