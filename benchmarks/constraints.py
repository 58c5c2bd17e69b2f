"""Constraints: best feasible value after 10, 20 and 30 trials on two standard problems.

    python benchmarks/constraints.py --seeds 3 --cache runs/constraints.jsonl

`gramacy`: the sum of two inputs, with a sinusoidal and a spherical constraint (Gramacy et al.,
"Modeling an augmented Lagrangian for blackbox constrained optimization", Technometrics 2016).
`gardner`: simulation 1 of Gardner et al., "Bayesian optimization with inequality constraints",
ICML 2014. The past of a problem is three studies of 30 random trials, shifted by up to 5 % of the
range. A run without a feasible trial has the largest value of the problem.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable
from datetime import date
from functools import cache
from pathlib import Path

import numpy as np
import optuna

from rankwise import RankwiseSampler

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "benchmarks" / "results" / "constraints.json"
SHOWN, TRIALS, PAST_TRIALS = (10, 20, 30), 30, 30
SAMPLERS = ("rankwise, past", "rankwise", "TPE", "GP")


def gramacy(x: np.ndarray) -> tuple[float, list[float]]:
    a, b = x
    first = 1.5 - a - 2 * b - 0.5 * np.sin(2 * np.pi * (a**2 - 2 * b))
    return float(a + b), [float(first), float(a**2 + b**2 - 1.5)]


def gardner(x: np.ndarray) -> tuple[float, list[float]]:
    a, b = 6 * x
    value = np.cos(2 * a) * np.cos(b) + np.sin(a)
    return float(value), [float(np.cos(a) * np.cos(b) - np.sin(a) * np.sin(b) - 0.5)]


PROBLEMS: dict[str, Callable] = {"gramacy": gramacy, "gardner": gardner}


@cache
def optimum(f: Callable) -> tuple[float, float]:
    """The best feasible value and the largest value, on a fine grid."""
    axis = np.linspace(0, 1, 251)
    found = [f(np.array([a, b])) for a in axis for b in axis]
    feasible = [value for value, limits in found if max(limits) <= 0]
    return min(feasible), max(value for value, _ in found)


def objective(f: Callable, shift: np.ndarray) -> Callable[[optuna.Trial], float]:
    def evaluate(trial: optuna.Trial) -> float:
        x = np.array([trial.suggest_float("a", 0, 1), trial.suggest_float("b", 0, 1)])
        value, limits = f(x + shift)
        trial.set_user_attr("limits", limits)
        return value

    return evaluate


def limits_of(trial: optuna.trial.FrozenTrial) -> list[float]:
    return trial.user_attrs["limits"]


def past(f: Callable, seed: int) -> optuna.storages.InMemoryStorage:
    storage = optuna.storages.InMemoryStorage()
    rng = np.random.default_rng(seed)
    for k in range(3):
        sampler = optuna.samplers.NSGAIISampler(  # random trials that store their constraints
            seed=10 * seed + k, population_size=1000, constraints_func=limits_of
        )
        study = optuna.create_study(storage=storage, study_name=f"past-{k}", sampler=sampler)
        study.optimize(objective(f, rng.uniform(-0.05, 0.05, 2)), n_trials=PAST_TRIALS)
    return storage


def run(f: Callable, which: str, seed: int, worst: float) -> list[float]:
    """Best feasible value after each trial."""
    made = {
        "rankwise, past": lambda: RankwiseSampler(
            past(f, seed), seed=seed, constraints_func=limits_of, strict=True
        ),
        "rankwise": lambda: RankwiseSampler(seed=seed, constraints_func=limits_of, strict=True),
        "TPE": lambda: optuna.samplers.TPESampler(seed=seed, constraints_func=limits_of),
        "GP": lambda: optuna.samplers.GPSampler(seed=seed, constraints_func=limits_of),
    }
    study = optuna.create_study(study_name="target", sampler=made[which]())
    study.optimize(objective(f, np.zeros(2)), n_trials=TRIALS)
    values = [t.value if max(limits_of(t)) <= 0 else worst for t in study.trials]
    return np.minimum.accumulate(values).round(5).tolist()


def load(cache_file: Path) -> dict[tuple, list[float]]:
    if not cache_file.exists():
        return {}
    rows = map(json.loads, cache_file.read_text().splitlines())
    return {tuple(key): found for *key, found in rows}


def write(cache_file: Path, seeds: int) -> None:
    done, rows = load(cache_file), []
    for name, f in PROBLEMS.items():
        best, _ = optimum(f)
        for which in SAMPLERS:
            curves = [done[(name, s, which)] for s in range(seeds) if (name, s, which) in done]
            mean = np.mean(curves, axis=0) - best
            rows.append([name, which, len(curves), *[float(mean[n - 1]) for n in SHOWN]])
    columns = [{"name": "problem"}, {"name": "sampler"}, {"name": "runs"}]
    columns += [{"name": f"after {n}", "digits": 4, "best": "min"} for n in SHOWN]
    content = {
        "title": "Constraints",
        "date": str(date.today()),
        "machine": "2 cores, other work on both",
        "versions": f"Optuna {optuna.__version__}, NumPy {np.__version__}",
        "command": [f"python benchmarks/constraints.py --seeds {seeds}"],
        "protocol": "Past: three studies of 30 random trials of the problem, shifted by up to 5 % "
        "of the range. All samplers get the constraints by `constraints_func` and have their "
        "default settings. Nothing was chosen on these problems.",
        "tables": {
            "regret": {
                "about": "Mean difference to the best feasible value of a fine grid; a run "
                "without a feasible trial counts with the largest value of the problem.",
                "columns": columns,
                "rows": rows,
                "best_within": "problem",
            }
        },
    }
    OUT.write_text(json.dumps(content, indent=1) + "\n", "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--cache", type=Path, default=ROOT / "runs" / "constraints.jsonl")
    options = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore")
    options.cache.parent.mkdir(parents=True, exist_ok=True)
    done = load(options.cache)
    for seed in range(options.seeds):
        for name, f in PROBLEMS.items():
            _, worst = optimum(f) if any((name, seed, w) not in done for w in SAMPLERS) else (0, 0)
            for which in SAMPLERS:
                if (name, seed, which) not in done:
                    found = run(f, which, seed, worst)
                    with options.cache.open("a") as file:
                        file.write(json.dumps([name, seed, which, found]) + "\n")
                    print(name, seed, which, found[9], found[-1], flush=True)
    write(options.cache, options.seeds)


if __name__ == "__main__":
    main()
