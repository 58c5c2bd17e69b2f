"""Several objectives: hypervolume after 10, 20 and 30 trials, with and without past studies.

    python benchmarks/objectives.py --data ../shared/data --seeds 2 --cache runs/objectives.jsonl
    python benchmarks/objectives.py --choose

Families: ZDT1, ZDT2 and DTLZ2 (three objectives) with an optimum that moves from task to task;
`hpolib-fcnet` (error and size of networks, two of four tasks the target); `textclf` (error and
seconds of text-classification pipelines). A past study has 30 random trials. The hypervolume is
relative to that of the true front; objectives of tables are measured as quantiles of the table.
`--choose` compares expected hypervolume improvement with a random augmented Chebyshev
scalarisation on development problems that are not reported.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path

import numpy as np
import optuna
from scipy.stats import rankdata

from rankwise import RankwiseSampler
from rankwise.acquisition.hypervolume import hypervolume, on_front
from rankwise.strategies.joint import JointStrategy

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "benchmarks" / "results" / "objectives.json"
CHOICE = ROOT / "benchmarks" / "results" / "objectives-choice.json"
SHOWN, TRIALS, PAST_TRIALS = (10, 20, 30), 30, 30
SAMPLERS = ("rankwise, past", "rankwise", "TPE", "NSGA-II", "GP")


@dataclass(frozen=True)
class Problem:
    """A target task with its past tasks.

    Attributes:
        suggest: asks a trial for the values of the parameters.
        target: values of the objectives.
        past: the same functions of the past tasks.
        volume: relative hypervolume of some values (n, m) of the target.
    """

    suggest: Callable[[optuna.Trial], tuple]
    target: Callable[[tuple], tuple[float, ...]]
    past: tuple[Callable[[tuple], tuple[float, ...]], ...]
    volume: Callable[[np.ndarray], float]
    m: int = 2


# ---------------------------------------------------------------------- functions


def zdt(kind: int, centre: np.ndarray) -> Callable[[tuple], tuple[float, ...]]:
    """ZDT1, 2 or 3 whose front is at `centre` instead of zero."""

    def f(x: tuple) -> tuple[float, ...]:
        f1, rest = x[0], np.abs(np.array(x[1:]) - centre[1:])
        g = 1 + 9 * float(rest.mean())
        shape = {1: 1 - np.sqrt(f1 / g), 2: 1 - (f1 / g) ** 2}.get(kind)
        if shape is None:
            shape = 1 - np.sqrt(f1 / g) - f1 / g * np.sin(10 * np.pi * f1)
        return f1, g * float(shape)

    return f


def dtlz2(centre: np.ndarray) -> Callable[[tuple], tuple[float, ...]]:
    """DTLZ2 with three objectives."""

    def f(x: tuple) -> tuple[float, ...]:
        a, b = np.array(x[:2]) * np.pi / 2
        g = 1 + float(((np.array(x[2:]) - centre[2:]) ** 2).sum())
        return (
            float(g * np.cos(a) * np.cos(b)),
            float(g * np.cos(a) * np.sin(b)),
            float(g * np.sin(a)),
        )

    return f


def bowls(centre: np.ndarray) -> Callable[[tuple], tuple[float, ...]]:
    """Two bowls, for development."""

    def f(x: tuple) -> tuple[float, ...]:
        v = np.array(x) - centre
        return float((v**2).sum()), float(((v - 0.3) ** 2 * np.linspace(1, 3, len(v))).sum())

    return f


def synthetic(make: Callable, name: str, seed: int, d: int = 5) -> Problem:
    rng = np.random.default_rng([seed, sum(map(ord, name))])
    centres = 0.5 + rng.uniform(-0.12, 0.12, (6, d))
    target = make(centres[0])
    m = len(target(tuple(centres[0])))
    X = rng.uniform(size=(4000, d))
    X[:2000, (m - 1) :] = centres[0][(m - 1) :]
    if name == "bowls":
        X[:2000] = centres[0] + rng.uniform(0, 0.3, (2000, 1))
    values = np.array([target(tuple(x)) for x in X])
    front = values[on_front(values)]
    reference = np.quantile(values[2000:], 0.5, axis=0) + 0.0
    reference = np.maximum(reference, front.max(axis=0) * 1.1)
    best = hypervolume(front[:: max(1, len(front) // 150)], reference)

    def suggest(trial: optuna.Trial) -> tuple:
        return tuple(trial.suggest_float(f"x{k}", 0, 1) for k in range(d))

    return Problem(
        suggest,
        target,
        tuple(make(c) for c in centres[1:]),
        lambda v: hypervolume(v, reference) / best,
        m,
    )


# ---------------------------------------------------------------------- tables


@cache
def read(folder: Path) -> tuple[dict, list]:
    with np.load(folder / "data.npz", allow_pickle=False) as data:
        arrays = {name: data[name] for name in data.files}
    return arrays, json.loads((folder / "schema.json").read_text("utf-8"))["hyperparameters"]


def table(folder: Path, second: str, sign: float, target: str, past: list[str]) -> Problem:
    """A problem of a table whose tasks have the same configurations."""
    data, schema = read(folder)
    names = data["tasks"].tolist()
    columns = [np.unique(data["X"][:, j]).tolist() for j in range(data["X"].shape[1])]

    def function(name: str) -> tuple[Callable, np.ndarray]:
        mine = data["task"] == names.index(name)
        X, y = data["X"][mine], sign * data["y"][mine]
        y = np.log(np.maximum(y, 1e-12)) if folder.name == "hpolib-fcnet" else y
        values = np.stack([y, np.log(np.maximum(data[second][mine], 1e-6))], axis=1)
        where = {tuple(map(float, row)): k for k, row in enumerate(X)}
        return (lambda x: tuple(map(float, values[where[x]]))), values

    f, values = function(target)
    places = [np.sort(values[:, k]) for k in range(2)]
    ranks = np.stack([rankdata(values[:, k], "max") for k in range(2)], axis=1) / len(values)
    best = hypervolume(np.unique(ranks[on_front(ranks)], axis=0), np.ones(2))

    def volume(v: np.ndarray) -> float:
        q = [np.searchsorted(places[k], v[:, k], "right") / len(values) for k in range(2)]
        return hypervolume(np.stack(q, axis=1), np.ones(2)) / best

    def suggest(trial: optuna.Trial) -> tuple:
        found = []
        for h, levels in zip(schema, columns, strict=True):
            if h["type"] == "categorical" or len(levels) == 1:
                k = trial.suggest_categorical(h["name"], list(range(len(levels))))
            else:
                k = trial.suggest_int(h["name"], 0, len(levels) - 1)
            found.append(float(levels[k]))
        return tuple(found)

    return Problem(suggest, f, tuple(function(name)[0] for name in past), volume)


def problems(data: Path, seed: int) -> dict[tuple[str, str], Callable[[], Problem]]:
    """The problems by family and name; they are made when they are used."""
    found: dict[tuple[str, str], Callable[[], Problem]] = {}
    for kind in (1, 2):
        name = f"ZDT{kind}"
        found["shifted functions", name] = lambda kind=kind, name=name: synthetic(
            lambda c: zdt(kind, c), name, seed
        )
    found["shifted functions", "DTLZ2"] = lambda: synthetic(dtlz2, "DTLZ2", seed)
    names = read(data / "hpolib-fcnet")[0]["tasks"].tolist()
    for target in names[:2]:
        past = [name for name in names if name != target]
        found["hpolib-fcnet", target] = lambda t=target, p=past: table(
            data / "hpolib-fcnet", "m_model_size", 1.0, t, p
        )
    split = json.loads((data / "splits.json").read_text("utf-8"))["textclf"]
    for target in split["test"][:2]:
        past = split["train"][:8]
        found["textclf", target] = lambda t=target, p=past: table(
            data / "textclf", "m_runtime", -1.0, t, p
        )
    return found


# ---------------------------------------------------------------------- runs


def past_storage(problem: Problem, seed: int) -> optuna.storages.InMemoryStorage:
    storage = optuna.storages.InMemoryStorage()
    for k, f in enumerate(problem.past):
        study = optuna.create_study(
            storage=storage,
            study_name=f"past-{k}",
            directions=["minimize"] * problem.m,
            sampler=optuna.samplers.RandomSampler(seed=100 * seed + k),
        )
        study.optimize(lambda t, f=f: f(problem.suggest(t)), n_trials=PAST_TRIALS)
    return storage


def curve(problem: Problem, which: str, seed: int, trials: int) -> list[float]:
    """Relative hypervolume after each of some trials."""
    made = {
        "rankwise": lambda: RankwiseSampler(seed=seed, strict=True),
        "rankwise, past": lambda: RankwiseSampler(
            past_storage(problem, seed), seed=seed, strict=True
        ),
        "TPE": lambda: optuna.samplers.TPESampler(seed=seed),
        "NSGA-II": lambda: optuna.samplers.NSGAIISampler(seed=seed, population_size=10),
        "GP": lambda: optuna.samplers.GPSampler(seed=seed),
    }
    study = optuna.create_study(
        study_name="target", directions=["minimize"] * problem.m, sampler=made[which]()
    )
    study.optimize(lambda t: problem.target(problem.suggest(t)), n_trials=trials)
    values = np.array([t.values for t in study.trials])
    return [round(problem.volume(values[: n + 1]), 5) for n in range(trials)]


def run(data: Path, seeds: int, cache_file: Path) -> None:
    cache_file.parent.mkdir(parents=True, exist_ok=True)
    done = load(cache_file)
    for seed in range(seeds):
        made = list(problems(data, seed).items())
        families = [family for (family, _), _ in made]
        places = [families[:k].count(family) for k, family in enumerate(families)]
        for k in np.argsort(places, kind="stable"):  # one of each family first
            (family, name), make = made[k]
            for which in SAMPLERS:
                key = (family, name, seed, which)
                if key in done:
                    continue
                found = curve(make(), which, seed, TRIALS)
                with cache_file.open("a") as file:
                    file.write(json.dumps([*key, found]) + "\n")
                print(*key, found[9], found[-1], flush=True)


def load(cache_file: Path) -> dict[tuple, list[float]]:
    if not cache_file.exists():
        return {}
    rows = map(json.loads, cache_file.read_text().splitlines())
    return {tuple(key): found for *key, found in rows}


def write(cache_file: Path, command: str) -> None:
    done = load(cache_file)
    keys = sorted({key[:3] for key in done})
    keys = [key for key in keys if all((*key, which) in done for which in SAMPLERS)]
    rows, speed = [], []
    for family in dict.fromkeys(key[0] for key in keys):
        mine = [key for key in keys if key[0] == family]
        curves = {w: np.array([done[(*key, w)][:TRIALS] for key in mine]) for w in SAMPLERS}
        for which in SAMPLERS:
            mean = curves[which].mean(axis=0)
            rows.append([family, which, len(mine), *[float(mean[n - 1]) for n in SHOWN]])
        mean = {w: curves[w].mean(axis=0) for w in SAMPLERS}
        for n in SHOWN:
            others = max(mean[w][n - 1] for w in SAMPLERS[1:])
            reached = np.flatnonzero(mean["rankwise, past"] >= others)
            speed.append([family, n, int(reached[0]) + 1 if len(reached) else None])
    columns = [{"name": "family"}, {"name": "sampler"}, {"name": "runs"}]
    columns += [{"name": f"after {n}", "digits": 3, "best": "max"} for n in SHOWN]
    content = {
        "title": "Several objectives",
        "date": str(date.today()),
        "machine": "2 cores, other work on both",
        "versions": f"Optuna {optuna.__version__}, NumPy {np.__version__}",
        "command": [command],
        "protocol": "Past studies have 30 random trials each: five of the shifted functions, "
        "three of `hpolib-fcnet`, eight of `textclf`. NSGA-II has a population of 10, the others "
        "their defaults. The acquisition function was chosen on other problems.",
        "tables": {
            "hypervolume": {
                "about": "Mean hypervolume relative to the true front (1 is perfect), over tasks "
                "and seeds.",
                "columns": columns,
                "rows": rows,
                "best_within": "family",
            },
            "speed": {
                "about": "Trials that the sampler with past studies needs for the mean "
                "hypervolume that the best sampler without them reaches; – means more than 30.",
                "columns": [
                    {"name": "family"},
                    {"name": "best other after"},
                    {"name": "reached with past studies after"},
                ],
                "rows": speed,
            },
        },
    }
    OUT.write_text(json.dumps(content, indent=1) + "\n", "utf-8")


# ---------------------------------------------------------------------- choice of the acquisition


def chebyshev(self, history, rows, pending, rng):
    """A utility like that of ParEGO, from the same surrogates: EI of a random scalarisation."""
    from rankwise.strategies.joint import believing

    seed = int(rng.integers(2**31))
    pairs = zip(self.objectives, self._tasks(history), strict=True)
    surrogates = [believing(part, task, pending, seed) for part, task in pairs]
    weights = rng.dirichlet(np.ones(len(surrogates)))
    draws = np.random.default_rng(seed).normal(size=(64, 1, len(surrogates)))
    codes = self.encoder.sample_codes(200, np.random.default_rng(seed))
    rivals = history.X[rows] if len(history) else self.encoder.encode_codes(codes)

    def utility(X):
        both = [s.predict(np.concatenate([X, rivals])) for s in surrogates]
        mean = np.stack([p.mean for p in both], axis=1)
        std = np.stack([p.std for p in both], axis=1)
        low, width = mean[len(X) :].min(axis=0), np.ptp(mean[len(X) :], axis=0) + 1e-9

        def scalar(y):
            scaled = weights * (y - low) / width
            return scaled.max(axis=-1) + 0.05 * scaled.sum(axis=-1)

        there = scalar(mean[len(X) :])
        incumbent = there.min() if len(history) else there.mean()
        sampled = scalar(mean[: len(X)] + std[: len(X)] * draws)
        return np.maximum(incumbent - sampled, 0).mean(axis=0) - 1e-6 * sampled.mean(axis=0)

    return utility, surrogates


def nearer_reference(self, rivals, *, known):
    """Boxes below a reference point near the front, as in BoTorch."""
    from rankwise.acquisition.hypervolume import free_boxes

    if not known:
        return free_boxes(rivals[:0], rivals.mean(axis=0))
    front = np.unique(rivals[on_front(rivals)], axis=0)
    width = np.where(np.ptp(front, axis=0) > 0, np.ptp(front, axis=0), np.ptp(rivals, axis=0))
    return free_boxes(front, front.max(axis=0) + 0.1 * np.maximum(width, 1e-9))


def choose() -> None:
    """Compare acquisition functions on development problems."""
    variants = {
        "hypervolume, reference behind all trials": {},
        "hypervolume, reference behind the front": {"_boxes": nearer_reference},
        "Chebyshev scalarisation": {"_utility": chebyshev},
    }
    kept = {name: getattr(JointStrategy, name) for name in ("_boxes", "_utility")}
    rows = []
    for variant, patches in variants.items():
        for name in kept:
            setattr(JointStrategy, name, patches.get(name, kept[name]))
        for which in ("rankwise, past", "rankwise"):
            found = [
                curve(synthetic(bowls, "bowls", seed, d), which, seed, 20)
                for seed in range(3)
                for d in (3, 6)
            ]
            mean = np.mean(found, axis=0)
            rows.append([which, variant, *[round(float(mean[n - 1]), 3) for n in (5, 10, 20)]])
            print(*rows[-1], flush=True)
    write_choice(rows)


def write_choice(rows: list[list]) -> None:
    columns = [{"name": "sampler"}, {"name": "acquisition"}]
    columns += [{"name": f"after {n}", "digits": 3, "best": "max"} for n in (5, 10, 20)]
    content = {
        "title": "Acquisition of several objectives",
        "date": str(date.today()),
        "machine": "2 cores, other work on both",
        "versions": f"Optuna {optuna.__version__}, NumPy {np.__version__}",
        "command": ["python benchmarks/objectives.py --choose"],
        "protocol": "Development problems: two bowls in three and in six dimensions, three seeds, "
        "five past studies of 30 random trials.",
        "tables": {
            "hypervolume": {
                "about": "Mean hypervolume relative to the true front, over six runs.",
                "columns": columns,
                "rows": rows,
                "best_within": "sampler",
            }
        },
    }
    CHOICE.write_text(json.dumps(content, indent=1) + "\n", "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--cache", type=Path, default=ROOT / "runs" / "objectives.jsonl")
    parser.add_argument("--choose", action="store_true")
    parser.add_argument("--write", action="store_true", help="only write the results file")
    options = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore")
    if options.choose:
        choose()
        return
    if not options.write:
        run(options.data, options.seeds, options.cache)
    write(options.cache, f"python benchmarks/objectives.py --seeds {options.seeds}")


if __name__ == "__main__":
    main()
