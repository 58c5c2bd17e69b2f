"""suggest: asks an Optuna trial for a configuration of a space."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from rankwise.space.encoder import Encoder
from rankwise.space.parameters import Parameter
from rankwise.types import Array, Configuration

if TYPE_CHECKING:
    import optuna
    from ConfigSpace import ConfigurationSpace
    from optuna.distributions import BaseDistribution


def suggest(
    trial: optuna.Trial, space: ConfigurationSpace | Mapping[str, Any] | Encoder
) -> Configuration:
    """Ask an Optuna trial for a configuration, through its `suggest_*` methods.

    Inactive hyperparameters are not asked for. With it an objective of `rankwise.minimize` works
    in `study.optimize`, with Optuna's pruners and any sampler.

    Args:
        trial: a trial of a study.
        space: a ConfigSpace space, the dict shorthand of `rankwise.make_space`, or an encoder,
            which avoids making one for every trial.

    Raises:
        optuna.TrialPruned: a forbidden clause excludes the configuration. The study continues.

    Example:
        >>> import optuna
        >>> optuna.logging.set_verbosity(optuna.logging.WARNING)
        >>> study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
        >>> study.optimize(lambda trial: suggest(trial, {"x": (0.0, 1.0)})["x"], n_trials=5)
        >>> study.best_value < 0.5
        True
    """
    import optuna

    from rankwise.storage.study_log import configuration_of, distribution

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
    """Codes (1, p) of a configuration; `ask` is called for each active hyperparameter."""
    codes = encoder.from_unit_raw(np.full((1, len(encoder.names)), 0.5))
    for j, parameter in enumerate(encoder.parameters):  # parents come first
        if not np.isnan(encoder.deactivate(codes)[0, j]):
            codes[0, j] = ask(parameter)
    return encoder.deactivate(codes)


def ask_for(trial: Any, name: str, distribution: BaseDistribution) -> Any:
    """Call the `suggest_*` method that fits the kind of the distribution."""
    known: Any = distribution
    if hasattr(known, "choices"):
        return trial.suggest_categorical(name, known.choices)
    whole = isinstance(known.low, int)
    question = trial.suggest_int if whole else trial.suggest_float
    return question(name, known.low, known.high, log=known.log, step=known.step)
