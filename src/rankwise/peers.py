"""Samplers of Optuna as strategies, so that they can be compared with ours."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from rankwise.asking import ask_for, ask_one_by_one
from rankwise.errors import check_name
from rankwise.parameters import Number, Parameter
from rankwise.proposal import Seen, random_unseen
from rankwise.strategy import Strategy
from rankwise.task import Task
from rankwise.types import Array

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.samplers import BaseSampler

SAMPLERS = ("tpe", "gp")
_TRIES = 5  # proposals that may be forbidden or repeat an evaluation, before a random one is made


@dataclass(frozen=True)
class OptunaStrategy(Strategy):
    """A sampler of Optuna with its defaults, asked define-by-run.

    A study is built anew from the history for every proposal, as strategies keep no state;
    choices go by their index. Pending configurations are running trials.

    Attributes:
        sampler: one of `SAMPLERS`.
    """

    sampler: str

    def __post_init__(self) -> None:
        check_name("sampler", self.sampler, SAMPLERS)

    def propose(self, history: Task, pending: Array, rng: np.random.Generator) -> Array:
        from rankwise.study import quiet_optuna

        seen = Seen(history.X, pending)
        with quiet_optuna():
            for _ in range(_TRIES):
                study = self._study(history, pending, int(rng.integers(2**31)))
                codes = ask_one_by_one(self.encoder, partial(_ask, study.ask()))
                row = self.encoder.encode_codes(codes)
                if self.encoder.allowed(codes)[0] and seen.new(row)[0]:
                    proposed: Array = row[0]
                    return proposed
        return random_unseen(self.encoder, seen, rng)

    def _study(self, history: Task, pending: Array, seed: int) -> Any:
        import optuna

        study = optuna.create_study(sampler=self._make_sampler(seed))
        known = self.encoder.decode_codes(history.X) if len(history) else np.empty((0, 0))
        trials = [
            self._trial(row, float(loss)) for row, loss in zip(known, history.losses, strict=True)
        ]
        running = self.encoder.decode_codes(pending) if len(pending) else np.empty((0, 0))
        study.add_trials([*trials, *(self._trial(row, None) for row in running)])
        return study

    def _make_sampler(self, seed: int) -> BaseSampler:
        import optuna

        if self.sampler == "tpe":
            return optuna.samplers.TPESampler(seed=seed)
        return optuna.samplers.GPSampler(seed=seed, warn_independent_sampling=False)

    def _trial(self, codes: Array, loss: float | None) -> Any:
        """A finished trial, or a running one, from codes (p,)."""
        import optuna

        values = {
            p: _number(p, code)
            for p, code in zip(self.encoder.parameters, codes, strict=True)
            if not np.isnan(code)
        }
        states = optuna.trial.TrialState
        return optuna.trial.create_trial(
            state=states.RUNNING if loss is None else states.COMPLETE,
            params={p.name: value for p, value in values.items()},
            distributions={p.name: _distribution(p) for p in values},
            value=loss,
        )


def _ask(trial: Any, parameter: Parameter) -> float:
    """The code that a trial suggests."""
    answer = ask_for(trial, parameter.name, _distribution(parameter))
    return float(parameter.code(answer) if isinstance(parameter, Number) else answer)


def _number(parameter: Parameter, code: float) -> float | int:
    return float(code) if isinstance(parameter, Number) and not parameter.integer else int(code)


def _distribution(parameter: Parameter) -> BaseDistribution:
    from optuna.distributions import CategoricalDistribution

    from rankwise.study import distribution

    if isinstance(parameter, Number):
        return distribution(parameter)
    codes = parameter.levels(int(parameter.size))
    return CategoricalDistribution([int(code) for code in codes])
