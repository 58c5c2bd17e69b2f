"""Random cases: what is done in each of them depends only on its seed.

A case goes through one of three doors (`Optimizer`, `minimize`, `RankwiseSampler`) with a random
space, a random past, a random history and a random objective. It raises an exception for what must
never happen: a crash, an illegal proposal, a fall-back or a numerical warning.
"""

from __future__ import annotations

import json
import logging
import math
import pickle
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import numpy as np
import optuna
from random_spaces import (
    NAMES,
    RandomSpace,
    in_distribution,
    random_distribution,
    random_space,
)

from rankwise import Encoder, Optimizer, RankwiseSampler, TaskSet, make_space, minimize
from rankwise._core.extras import installed
from rankwise.errors import SpaceError, SpaceExhausted
from rankwise.history.task import Task

VALUES = [0.0, 1.0, -1.0, 1e-300, 1e300, -1e300, 1e12, 1.7976931348623157e308, 0.1, 0.1]
WRONG = [math.nan, math.inf, -math.inf]

ALONE = ["mbo", "mbo", "mbo", "gp", "forest", "hebo", "random", "grid", "default", "tpe"]
RARE = ["cma-es", "gp-optuna"]
TRANSFER = ["auto", "auto", "eb-gp", "rgpe", "tst", "taf", "init", "portfolio", "ws-cma-es"]
SLOW_TRANSFER = ["scot", "icm"]
NETWORKS = {
    "dre": {"members": 2, "width": 8, "layers": 2, "epochs": 10},
    "ablr": {"width": 8, "layers": 2},
    "fsbo": {"width": 8, "layers": 2, "epochs": 5},
    "eb-net": {"steps": 30},
    "dre-gp": {"steps": 10},
}
SMALL = {"forest": {"trees": 10}}
"""Options that make a method small enough for thousands of cases."""


class Finding(Exception):
    """What must never happen, other than an exception."""


class Interruption(Exception):
    """What a random objective raises."""


def run_case(seed: int) -> str:
    """Run the case of a seed; return a line that describes it.

    Raises:
        Exception: a finding.
    """
    rng = Random(seed)
    door = rng.choice([optimizer_case, optimizer_case, sampler_case, sampler_case, minimize_case])
    with watched():
        return f"{door.__name__} {door(rng)}"


@contextmanager
def watched() -> Iterator[None]:
    """Turns fall-backs, numerical warnings of ours and warnings on the log into findings."""
    seen: list[str] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            seen.append(record.getMessage())

    logger, handler = logging.getLogger("rankwise"), Handler(logging.WARNING)
    logger.addHandler(handler)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield
    finally:
        logger.removeHandler(handler)
    seen += [
        f"{w.category.__name__}: {w.message} ({w.filename}:{w.lineno})"
        for w in caught
        if issubclass(w.category, RuntimeWarning) or "fall" in str(w.message)
    ]
    bad = [text for text in seen if not any(re.search(known, text) for known in EXPLAINED)]
    if bad:
        raise Finding("; ".join(sorted(set(bad))))


EXPLAINED = [
    r"past studies do not predict the order of this study's trials",
    r"there are no past studies to learn from in the archive",
    r"past studies do not predict each other; they are not used",
    r"past studies \(\d+ trials\) are too small to tell whether they agree",
]
"""Warnings that say what happened, and why, and that are right."""


def method_of(rng: Random, past: bool) -> tuple[str, dict[str, Any]]:
    """A method and its options."""
    options: dict[str, Any] = {}
    if past:
        method = rng.choice(TRANSFER if rng.random() < 0.7 else ["init", "portfolio"])
        if rng.random() < 0.02:
            method = rng.choice(SLOW_TRANSFER)
        if rng.random() < 0.15:
            options["guard"] = True
        if rng.random() < 0.005 and installed("torch"):
            method = rng.choice(list(NETWORKS))
            options = {**NETWORKS[method]}
    else:
        method = rng.choice(ALONE if rng.random() < 0.7 else ["random", "default"])
        if rng.random() < 0.03:
            method = rng.choice(RARE)
    if method in ("cma-es", "ws-cma-es") and not installed("cmaes"):
        method = "random" if not past else "eb-gp"
    return method, {**SMALL.get(method, {}), **options}


def loss_of(rng: Random) -> Callable[[], float]:
    """Losses of one study: smooth, tied, huge, or a mixture with failures."""
    kind = rng.choice(["plain", "plain", "ties", "huge", "constant", "mixed", "failing"])
    scale = rng.choice([1.0, 1.0, 1e-9, 1e9, 1e200])

    def loss() -> float:
        if kind == "ties":
            return scale * rng.choice([0.0, 1.0])
        if kind == "huge":
            return rng.choice(VALUES)
        if kind == "constant":
            return scale
        if kind == "mixed":
            return rng.choice(rng.choice([VALUES, WRONG, [rng.random()]]))
        if kind == "failing":
            return math.nan
        return scale * rng.gauss(0.0, 1.0)

    return loss


# ---------------------------------------------------------------------- Optimizer and minimize


def a_space(rng: Random) -> tuple[RandomSpace, Encoder] | None:
    """A random space that can be built; None if everything in it is forbidden."""
    space = random_space(rng)
    try:
        built = make_space(space.parameters, when=space.when or None, forbid=space.forbid)
        encoder = Encoder(built)
        encoder.sample(1, np.random.default_rng(0))
    except SpaceError:  # everything is forbidden, or a condition that cannot hold
        return None
    return space, encoder


def a_past(rng: Random, encoder: Encoder) -> list[Task]:
    """Source tasks, among them tiny, tied, failed and repeated ones."""
    tasks = []
    for k in range(rng.choice([1, 1, 2, 3, 6])):
        n = rng.choice([0, 1, 2, 5, 12])
        X = encoder.sample(n, np.random.default_rng(rng.randrange(2**31)))
        if n and rng.random() < 0.2:
            X[:] = X[0]  # the same configuration again and again
        loss = loss_of(rng)
        context = {"rows": rng.choice([1.0, 1e12])} if rng.random() < 0.2 else {}
        tasks.append(Task.of(X, [loss() for _ in range(n)], name=f"past {k}", context=context))
    if rng.random() < 0.1:
        tasks += tasks  # studies that were imported twice
    return tasks


def optimizer_case(rng: Random) -> str:
    """Told configurations, then proposals one by one or in batches, some of them pending."""
    found = a_space(rng)
    if found is None:
        return "everything is forbidden"
    space, encoder = found
    past = a_past(rng, encoder) if rng.random() < 0.5 else []
    method, options = method_of(rng, bool(past))
    tasks: Any = TaskSet(tuple(past)) if rng.random() < 0.3 else past
    optimizer = Optimizer(encoder, method=method, tasks=tasks, seed=rng.randrange(99), **options)
    loss = loss_of(rng)
    told = rng.choice([0, 0, 1, 3, 8, 20])
    design = np.random.default_rng(rng.randrange(2**31))
    for configuration in encoder.decode(encoder.sample(told, design)) if told else []:
        optimizer.tell(configuration, loss(), cost=rng.choice([None, 0.0, 1e9, math.nan]))
    proposed = 0
    for _ in range(rng.choice([1, 1, 2, 3])):
        try:
            batch = optimizer.ask(rng.choice([1, 1, 1, 1, 3]))
        except SpaceExhausted:
            break
        for configuration in batch:
            proposed += 1
            check(space, configuration)
            if rng.random() < 0.7:
                status = rng.choice([None, None, None, "failed", "timeout"])
                optimizer.tell(configuration, loss(), status=status)
        if rng.random() < 0.1:
            optimizer = pickle.loads(pickle.dumps(optimizer))
    trust = optimizer.trust
    if trust is not None and not 0.0 <= trust <= 1.0:
        raise Finding(f"the trust is {trust}")
    optimizer.explain(encoder.decode(encoder.sample(2, design)))
    return f"{method} {options} d={encoder.n_columns} past={len(past)} {told}+{proposed}"


def minimize_case(rng: Random) -> str:
    """A run of a few trials whose objective also fails, and the same run once more, resumed."""
    found = a_space(rng)
    if found is None:
        return "everything is forbidden"
    space, encoder = found
    past = a_past(rng, encoder) if rng.random() < 0.4 else []
    method, options = method_of(rng, bool(past))
    loss, trials = loss_of(rng), rng.choice([1, 1, 1, 2, 2, 5, 12])
    oddity = rng.choice([None, None, "raises", "text", "none", "numpy"])

    def objective(configuration: dict[str, Any]) -> Any:
        check(space, configuration)
        if oddity and rng.random() < 0.4:
            if oddity == "raises":
                raise Interruption("💥" * rng.choice([0, 1, 5000]))
            return {"text": "0.5", "none": None, "numpy": np.float32(0.25)}[oddity]
        return loss()

    illegal: list[str] = []

    def guarded(configuration: dict[str, Any]) -> Any:
        try:
            return objective(configuration)
        except Finding as finding:  # minimize records exceptions of an objective
            illegal.append(str(finding))
            return 0.0

    storage = optuna.storages.InMemoryStorage() if rng.random() < 0.5 else None
    kinds: dict[str, Any] = {"direction": rng.choice(["minimize", "maximize"])}
    if rng.random() < 0.2:
        kinds["design"] = rng.choice(["lhs", "sobol", "random-3", "default", "grid", 2])
    for _ in range(1 if storage is None else 2):
        result = minimize(
            guarded, encoder, trials=trials, method=method, tasks=past, seed=rng.randrange(9),
            storage=storage, name=None if storage is None else "run", progress=False,
            **kinds, **options,
        )  # fmt: skip
        trials += 2
    if illegal:
        raise Finding(illegal[0])
    if len(result.trials) < trials - 2:
        _check_exhausted(encoder, result)
    if len(result.history) != len(result.trials):
        raise Finding("the history has another length than the trials")
    return f"{method} {options} d={encoder.n_columns} past={len(past)} {len(result.trials)}"


def _check_exhausted(encoder: Encoder, result: Any) -> None:
    if result.stopped not in ("exhausted", "trials"):
        raise Finding(f"stopped: {result.stopped!r}")
    some = encoder.sample(300, np.random.default_rng(0))
    if result.stopped == "exhausted" and len(result.trials) < len(np.unique(some, axis=0)):
        raise Finding(f"exhausted after {len(result.trials)} of {encoder.size} configurations")


def check(space: RandomSpace, configuration: dict[str, Any]) -> None:
    wrong = space.illegal(configuration)
    if wrong:
        raise Finding(f"illegal proposal {configuration!r}: {wrong}")


# ---------------------------------------------------------------------- RankwiseSampler


class DefineByRun:
    """A random objective of Optuna that asks for what it likes, and checks what it gets."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        names = rng.sample(NAMES, rng.choice([1, 2, 3, 6]))
        self.asked = {name: random_distribution(rng) for name in names}
        self.loss = loss_of(rng)
        self.conditional = rng.random() < 0.4
        self.moving = rng.random() < 0.2
        self.failing = rng.choice([0.0, 0.0, 0.3, 1.0])
        self.pruning = rng.choice([0.0, 0.0, 0.4])
        self.checked = True

    def __call__(self, trial: optuna.Trial) -> float:
        branch = 0
        for k, (name, asked) in enumerate(self.asked.items()):
            if self.conditional and k and (branch + k) % 2:
                continue
            asked = self._moved(asked, trial.number)
            value = suggest(trial, name, asked)
            if self.checked and not in_distribution(asked, value):
                raise Finding(f"illegal value {value!r} of {name!r} for {asked}")
            branch += sum(map(ord, repr(value)))
        if self.rng.random() < self.failing:
            raise Interruption
        for step in range(self.rng.choice([0, 0, 3]) if self.pruning else 0):
            trial.report(self.loss(), step)
        if self.rng.random() < self.pruning:
            raise optuna.TrialPruned
        return self.loss()

    def _moved(self, asked: dict[str, Any], number: int) -> dict[str, Any]:
        """The distribution in a later trial; ranges may move."""
        plain = asked["kind"] != "categorical" and not asked.get("log") and not asked.get("step")
        if not (self.moving and plain):
            return asked
        return {**asked, "low": asked["low"] + number, "high": asked["high"] + 2 * number}


def suggest(trial: optuna.Trial, name: str, asked: dict[str, Any]) -> Any:
    arguments = {key: value for key, value in asked.items() if key != "kind"}
    return getattr(trial, f"suggest_{asked['kind']}")(name, **arguments)


def past_storage(rng: Random, objective: DefineByRun) -> optuna.storages.BaseStorage:
    """Past studies that are like the new one, or messy: other kinds, ranges, names, states."""
    storage = optuna.storages.InMemoryStorage()
    for k in range(rng.choice([0, 1, 2, 4, 8])):
        direction = rng.choice(["minimize", "minimize", "maximize"])
        study = optuna.create_study(
            storage=storage,
            study_name=f"past-{k}",
            sampler=optuna.samplers.RandomSampler(seed=k),
            direction=direction,
        )
        if rng.random() < 0.2:
            study.set_user_attr("rankwise:context", rng.choice([{}, {"rows": 3}, "?", [1]]))
        similar = DefineByRun(rng)
        # Optuna's own sampler may exceed a tiny range of huge numbers by a rounding error.
        similar.moving = similar.checked = False
        messy = rng.random() < 0.4
        for name, asked in objective.asked.items():
            if not messy or rng.random() < 0.5:
                similar.asked[name] = asked if rng.random() < 0.8 else random_distribution(rng)
        if not messy:
            similar.asked = {n: a for n, a in similar.asked.items() if n in objective.asked}
        study.optimize(similar, n_trials=rng.choice([0, 1, 2, 6, 15]), catch=(Interruption,))
        if rng.random() < 0.2:
            study.ask()  # a trial that never ends
        if rng.random() < 0.2:
            study.enqueue_trial({"never asked for": 1})
    return storage


def sampler_case(rng: Random) -> str:
    """A study of a define-by-run objective with an archive of random studies."""
    objective = DefineByRun(rng)
    archive = past_storage(rng, objective) if rng.random() < 0.6 else None
    method, options = method_of(rng, True)
    alone = method_of(rng, False)[0]
    arguments: dict[str, Any] = {"search_space": None}
    if rng.random() < 0.15:
        arguments["search_space"] = {
            name: as_distribution(asked) for name, asked in objective.asked.items()
        }
    sampler = RankwiseSampler(
        archive, method=method, alone=alone, options=options, seed=rng.randrange(99), **arguments
    )
    storage = archive if rng.random() < 0.5 else None  # the study itself is never a past study
    study = optuna.create_study(
        storage=storage, sampler=sampler, direction=rng.choice(["minimize", "maximize"])
    )
    trials = rng.choice([1, 1, 1, 2, 2, 4, 9])
    history(rng, study, objective)
    if rng.random() < 0.1 and not objective.moving:  # Optuna does not check them
        study.enqueue_trial(_some_values(rng, objective))
    study.optimize(objective, n_trials=trials, catch=(Interruption,))
    if rng.random() < 0.1:
        study.sampler = pickle.loads(pickle.dumps(sampler))
        study.optimize(objective, n_trials=1, catch=(Interruption,))
    trust = sampler.trust(study)
    if trust is not None and not 0.0 <= trust <= 1.0:
        raise Finding(f"the trust is {trust}")
    fallbacks = sampler._account.fallbacks
    if fallbacks:
        raise Finding(f"fall-backs: {fallbacks}")
    for trial in study.get_trials(deepcopy=False):
        json.dumps(trial.user_attrs, allow_nan=False)  # a server's database takes no NaN
    return f"{method} {options} {alone} past={archive is not None} {len(study.trials)}"


def as_distribution(asked: dict[str, Any]) -> Any:
    kinds = {
        "float": optuna.distributions.FloatDistribution,
        "int": optuna.distributions.IntDistribution,
        "categorical": optuna.distributions.CategoricalDistribution,
    }
    arguments = {key: value for key, value in asked.items() if key != "kind"}
    return kinds[asked["kind"]](**arguments)


def history(rng: Random, study: optuna.Study, objective: DefineByRun) -> None:
    """Trials of another sampler, as if the study had begun without us; some still run."""
    if rng.random() < 0.5:
        ours, study.sampler = study.sampler, optuna.samplers.RandomSampler(seed=0)
        n = rng.choice([1, 3, 12, 25])
        study.optimize(objective, n_trials=n, catch=(Interruption,))
        study.sampler = ours
    if rng.random() < 0.2:
        study.ask()


def _some_values(rng: Random, objective: DefineByRun) -> dict[str, Any]:
    """Legal values for some parameters, as `enqueue_trial` takes them."""
    return {
        name: asked["choices"][-1] if asked["kind"] == "categorical" else asked["low"]
        for name, asked in objective.asked.items()
        if rng.random() < 0.6
    }
