"""How long RankwiseSampler takes for a proposal, beside Optuna's own samplers.

    python benchmarks/sampler.py

All samplers propose for the same study, which has n finished trials of four floats, an integer
and a choice; a proposal is `ask` and a suggestion of every parameter. One thread. The seconds are
those of the processor, so that other work on the machine counts little; they are medians of some
proposals, made in turns. Learning from the past, which happens once, is not part of them.
`--quick` says little.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import time
from collections.abc import Mapping, Sequence
from datetime import date
from importlib.metadata import version

os.environ.update({f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS")})

import numpy as np
import optuna
import torch
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.samplers import BaseSampler, GPSampler, TPESampler
from optuna.trial import FrozenTrial, create_trial

from rankwise import RankwiseSampler

SIZES = (20, 50, 100, 200, 500)
STUDIES, PAST_TRIALS = 20, 50
KINDS = ("a", "b", "c")
SPACE: Mapping[str, BaseDistribution] = {
    "rate": FloatDistribution(1e-4, 1.0, log=True),
    "decay": FloatDistribution(1e-6, 1e-1, log=True),
    "dropout": FloatDistribution(0.0, 0.9),
    "momentum": FloatDistribution(0.0, 1.0),
    "layers": IntDistribution(1, 16),
    "kind": CategoricalDistribution(KINDS),
}
BASE = "GP sampler"  # what the others are compared with


def loss(params: Mapping[str, object], shift: float = 0.0) -> float:
    """A smooth function whose best place moves with the shift."""
    rate, decay = np.log10(params["rate"]), np.log10(params["decay"])
    numbers = (rate + 2 - shift) ** 2 + 0.3 * (decay + 4) ** 2 + (params["dropout"] - 0.3) ** 2
    rest = (params["momentum"] - 0.9) ** 2 + 0.05 * abs(params["layers"] - 6)
    return float(numbers + rest + KINDS.index(params["kind"]))


def random_trials(n: int, seed: int, shift: float = 0.0) -> list[FrozenTrial]:
    """Finished trials of a random search."""
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=seed))
    drawn = [study.ask(dict(SPACE)).params for _ in range(n)]
    return [
        create_trial(params=params, distributions=dict(SPACE), value=loss(params, shift))
        for params in drawn
    ]


def past_studies() -> optuna.storages.BaseStorage:
    storage = optuna.storages.InMemoryStorage()
    for k in range(STUDIES):
        past = optuna.create_study(storage=storage, study_name=f"past-{k}")
        past.add_trials(random_trials(PAST_TRIALS, 100 + k, shift=0.05 * k))
    return storage


def propose(study: optuna.Study) -> float:
    """Processor seconds of one proposal, which is then evaluated."""
    start = time.process_time()
    trial = study.ask(dict(SPACE))
    taken = time.process_time() - start
    study.tell(trial, loss(trial.params))
    return taken


def measure(samplers: Mapping[str, BaseSampler], n: int, repeats: int) -> dict[str, float]:
    """Median seconds of a proposal by each sampler in a study with n finished trials."""
    studies = {}
    for name, sampler in samplers.items():
        studies[name] = optuna.create_study(sampler=sampler, study_name=f"new-{n}")
        studies[name].add_trials(random_trials(n, seed=n))
        propose(studies[name])  # imports, and learning of the past
    times: dict[str, list[float]] = {name: [] for name in samplers}
    for _ in range(repeats):
        for name, study in studies.items():
            times[name].append(propose(study))
    return {name: statistics.median(values) for name, values in times.items()}


def table(found: Mapping[int, Mapping[str, float]]) -> str:
    """Seconds, and how many times as long as the GP sampler, in Markdown."""
    names = list(next(iter(found.values())))
    others = [name for name in names if name != BASE]
    header = ["trials", *(f"{name} s" for name in names), *(f"{name} : {BASE}" for name in others)]
    rows = [
        [str(n), *(f"{times[name]:.3f}" for name in names)]
        + [f"{times[name] / times[BASE]:.2f}" for name in others]
        for n, times in found.items()
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in [header, ["---"] * len(header), *rows])


def growth(found: Mapping[int, Mapping[str, float]]) -> str:
    """How the time grows from 200 trials to the most, beside n log n."""
    first, last = min(n for n in found if n >= min(200, max(found))), max(found)
    bound = last * np.log(last) / (first * np.log(first))
    parts = [f"{name} {found[last][name] / found[first][name]:.2f}" for name in found[last]]
    return f"From {first} to {last} trials, times: n log n {bound:.2f}, {', '.join(parts)}."


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=3, help="proposals of each sampler")
    parser.add_argument("--quick", action="store_true", help="little training, few trials")
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    torch.set_num_threads(1)
    sizes: Sequence[int] = (20, 50) if arguments.quick else SIZES
    hasty = {"training": {"steps": 20}} if arguments.quick else {}
    past = past_studies()
    samplers = {
        BASE: GPSampler(seed=0),
        "TPE sampler": TPESampler(seed=0),
        "Rankwise, past": RankwiseSampler(past, seed=0),
        "Rankwise, past, dre": RankwiseSampler(past, seed=0, method="dre", options=hasty),
        "Rankwise, no past": RankwiseSampler(seed=0),
    }
    found = {}
    for n in sizes:
        found[n] = measure(samplers, n, arguments.repeats)
        print(f"{n}: {found[n]}", flush=True)
    packages = [f"{name} {version(name)}" for name in ("rankwise", "optuna", "torch", "numpy")]
    print(f"\n{date.today()}, {', '.join(packages)}, Python {platform.python_version()}")
    print(f"{STUDIES} past studies with {PAST_TRIALS} trials each.\n")
    print(table(found))
    print(f"\n{growth(found)}")


if __name__ == "__main__":
    main()
