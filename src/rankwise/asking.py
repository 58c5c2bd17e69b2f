"""Asking a trial of Optuna for a configuration of a space, one hyperparameter after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from rankwise.parameters import Parameter
from rankwise.space import Encoder
from rankwise.types import Array, Configuration

if TYPE_CHECKING:
    import optuna
    from ConfigSpace import ConfigurationSpace
    from optuna.distributions import BaseDistribution


def suggest(
    trial: optuna.Trial, space: ConfigurationSpace | Mapping[str, Any] | Encoder
) -> Configuration:
    """A configuration of a space by the `suggest_*` of an Optuna trial.

    Hyperparameters that are inactive after the answers so far are not asked for. So an objective
    of `rankwise.minimize` becomes one of `study.optimize`, with Optuna's pruners and any sampler.

    Args:
        trial: of a study.
        space: a ConfigSpace space, the dict shorthand of `rankwise.make_space`, or an encoder,
            which saves making one for every trial.

    Raises:
        optuna.TrialPruned: a forbidden clause excludes the answers together. The study goes on.

    Example:
        >>> import optuna
        >>> optuna.logging.set_verbosity(optuna.logging.WARNING)
        >>> study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
        >>> study.optimize(lambda trial: suggest(trial, {"x": (0.0, 1.0)})["x"], n_trials=5)
        >>> study.best_value < 0.5
        True
    """
    import optuna

    from rankwise.study import configuration_of, distribution

    encoder = space if isinstance(space, Encoder) else Encoder(space)

    def ask(parameter: Parameter) -> float:
        answer = ask_for(trial, parameter.name, distribution(parameter))
        return parameter.code(configuration_of(encoder, {parameter.name: answer})[parameter.name])

    codes = ask_one_by_one(encoder, ask)
    if not encoder.allowed(codes)[0]:
        raise optuna.TrialPruned("a forbidden clause of the space excludes this configuration")
    [configuration] = encoder.decode(encoder.encode_codes(codes))
    return configuration


def ask_one_by_one(encoder: Encoder, ask: Callable[[Parameter], float]) -> Array:
    """Codes (1, p) from a question for each hyperparameter, those that are inactive left out."""
    codes = encoder.from_unit_raw(np.full((1, len(encoder.names)), 0.5))
    for j, parameter in enumerate(encoder.parameters):  # parents come first
        if not np.isnan(encoder.deactivate(codes)[0, j]):
            codes[0, j] = ask(parameter)
    return encoder.deactivate(codes)


def ask_for(trial: Any, name: str, distribution: BaseDistribution) -> Any:
    """What a trial suggests, by the kind of the distribution."""
    known: Any = distribution
    if hasattr(known, "choices"):
        return trial.suggest_categorical(name, known.choices)
    whole = isinstance(known.low, int)
    question = trial.suggest_int if whole else trial.suggest_float
    return question(name, known.low, known.high, log=known.log, step=known.step)
