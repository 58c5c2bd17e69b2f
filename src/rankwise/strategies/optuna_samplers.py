"""Strategies that use Optuna's samplers, as baselines."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from rankwise.acquisition.maximizer import Seen, random_unseen
from rankwise.errors import check_name
from rankwise.history.task import Task
from rankwise.space.parameters import Number, Parameter
from rankwise.storage.suggest_space import ask_for, ask_one_by_one
from rankwise.strategies.base import Strategy
from rankwise.types import Array

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.samplers import BaseSampler

SAMPLERS = ("tpe", "gp")
_MANY = 10_000  # integers of more values are floats for the GP sampler, which lists all values
_TRIES = 5  # forbidden or repeated proposals before a random configuration is proposed


@dataclass(frozen=True)
class OptunaStrategy(Strategy):
    """Strategy that uses an Optuna sampler with its defaults.

    An Optuna study is rebuilt from the history for every proposal, because strategies keep no
    state. Choices are represented by their index. Pending configurations are running trials.

    Attributes:
        sampler: one of `SAMPLERS`.
    """

    sampler: str

    def __post_init__(self) -> None:
        check_name("sampler", self.sampler, SAMPLERS)

    def propose(self, history: Task, pending: Array, rng: np.random.Generator) -> Array:
        from rankwise.storage.study_log import quiet_optuna

        seen = Seen(history.X, pending)
        with quiet_optuna():
            for _ in range(_TRIES):
                study = self._study(history, pending, int(rng.integers(2**31)))
                codes = ask_one_by_one(self.encoder, partial(self._ask, study.ask()))
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
        """Make an Optuna trial from codes (p,); it is running if the loss is None."""
        import optuna

        values = {
            p: self._number(p, code)
            for p, code in zip(self.encoder.parameters, codes, strict=True)
            if not np.isnan(code)
        }
        states = optuna.trial.TrialState
        return optuna.trial.create_trial(
            state=states.RUNNING if loss is None else states.COMPLETE,
            params={p.name: value for p, value in values.items()},
            distributions={p.name: self._distribution(p) for p in values},
            value=loss,
        )

    def _ask(self, trial: Any, parameter: Parameter) -> float:
        """Ask an Optuna trial for a parameter; return the code of the answer."""
        answer = ask_for(trial, parameter.name, self._distribution(parameter))
        if self._is_float(parameter) and isinstance(parameter, Number):
            return float(parameter.nearest(np.array([answer]))[0])
        return float(parameter.code(answer) if isinstance(parameter, Number) else answer)

    def _number(self, parameter: Parameter, code: float) -> float | int:
        return float(code) if self._is_float(parameter) else int(code)

    def _is_float(self, parameter: Parameter) -> bool:
        """True if Optuna is asked for a float."""
        if not isinstance(parameter, Number):
            return False
        return not parameter.integer or (self.sampler == "gp" and parameter.size > _MANY)

    def _distribution(self, parameter: Parameter) -> BaseDistribution:
        from optuna.distributions import CategoricalDistribution, FloatDistribution

        from rankwise.storage.study_log import distribution

        if isinstance(parameter, Number):
            if parameter.integer and self._is_float(parameter):
                return FloatDistribution(parameter.lower, parameter.upper, log=parameter.log)
            return distribution(parameter)
        codes = parameter.levels(int(parameter.size))
        return CategoricalDistribution([int(code) for code in codes])
