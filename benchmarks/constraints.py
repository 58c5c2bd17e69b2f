"""Constraints: best feasible value after 10, 20 and 30 trials on two standard problems.

    python benchmarks/constraints.py --seeds 5 --cache runs/constraints.jsonl

`gramacy`: the sum of two inputs, with a sinusoidal and a spherical constraint (Gramacy et al.,
"Modeling an augmented Lagrangian for blackbox constrained optimization", Technometrics 2016).
`gardner`: simulation 1 of Gardner et al., "Bayesian optimization with inequality constraints",
ICML 2014. The past of a problem is three studies of 30 random trials, shifted by up to 5 % of the
range. A run without a feasible trial has the largest value of the problem.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import optuna
from cells import Lines, arguments, write_results

from rankwise import RankwiseSampler

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


def write(lines: Lines, seeds: int) -> None:
    rows = []
    for name, f in PROBLEMS.items():
        best, _ = optimum(f)
        for which in SAMPLERS:
            keys = [(name, seed, which) for seed in range(seeds)]
            regret = np.array([lines[key] for key in keys if key in lines]) - best
            mean, error = regret.mean(axis=0), regret[:, -1].std(ddof=1) / np.sqrt(len(regret))
            shown = [float(mean[n - 1]) for n in SHOWN]
            rows.append([name, which, len(regret), *shown, float(error)])
    columns = [{"name": "problem"}, {"name": "sampler"}, {"name": "runs"}]
    columns += [{"name": f"after {n}", "digits": 4, "best": "min"} for n in SHOWN]
    write_results(
        "constraints",
        "Constraints",
        f"python benchmarks/constraints.py --seeds {seeds}",
        "Past: three studies of 30 random trials of the problem, shifted by up to 5 % of the "
        "range. All samplers get the constraints by `constraints_func` and have their default "
        "settings. The scale of constraint values was corrected after a look at the first two "
        "seeds.",
        {
            "regret": {
                "about": "Mean difference to the best feasible value of a fine grid, and the "
                "standard error of the last; a run without a feasible trial counts with the "
                "largest value of the problem.",
                "columns": [*columns, {"name": "± of the last", "digits": 4}],
                "rows": rows,
                "best_within": "problem",
            }
        },
    )


def main() -> None:
    options = arguments("constraints", __doc__, seeds=5).parse_args()
    lines = Lines(options.cache)
    keys = [
        (name, seed, which)
        for seed in range(options.seeds)
        for name in PROBLEMS
        for which in SAMPLERS
    ]
    for name, seed, which in [] if options.write else keys:
        if (name, seed, which) not in lines:
            f = PROBLEMS[name]
            lines.add((name, seed, which), run(f, which, seed, optimum(f)[1]))
            print(name, seed, which, lines[name, seed, which][-1], flush=True)
    write(lines, options.seeds)


if __name__ == "__main__":
    main()
