"""A space together with the way from its configurations to an estimator's parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import ConfigSpace
import numpy as np
from ConfigSpace import ConfigurationSpace

from rankwise.types import Configuration

Decoder: TypeAlias = Callable[[Configuration], dict[str, Any]]
"""From a configuration to parameters; picklable, as a fitted search is."""


@dataclass(frozen=True)
class EstimatorSpace:
    """What to search for an estimator.

    Attributes:
        space: the values of its configurations are plain (numbers, strings, bools, None), so
            that they can be stored anywhere.
        name: "svc", "random-forest|svc", ...; "" if the user made the space.
        decode: from a configuration to parameters; by default they are the same.
    """

    space: ConfigurationSpace
    name: str
    decode: Decoder = dict

    def params(self, configuration: Mapping[str, Any]) -> dict[str, Any]:
        """What `estimator.set_params` takes; inactive hyperparameters are absent."""
        plain = {
            name: value.item() if isinstance(value, np.generic) else value
            for name, value in configuration.items()
        }
        return self.decode(plain)


def part(configuration: Mapping[str, Any], prefix: str) -> Configuration:
    """The hyperparameters whose names begin with a prefix, without it."""
    return {
        name.removeprefix(prefix): value
        for name, value in configuration.items()
        if name.startswith(prefix)
    }


def prefixed(prefix: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters under longer names."""
    return {prefix + name: value for name, value in params.items()}


@dataclass(frozen=True)
class _Together:
    """Decodes each part of a configuration on its own; for each prefix its decoder."""

    parts: tuple[tuple[str, Decoder], ...]

    def __call__(self, configuration: Configuration) -> dict[str, Any]:
        params: dict[str, Any] = {}
        for prefix, decode in self.parts:
            params |= prefixed(prefix, decode(part(configuration, prefix)))
        return params


def together(parts: Mapping[str, EstimatorSpace]) -> EstimatorSpace:
    """One space of several that are searched at once.

    Args:
        parts: for each the step of the pipeline that it belongs to ("svc", or "union__svc"
            for a nested one); "" stands for the estimator itself and is then alone.
    """
    if list(parts) == [""]:
        return parts[""]
    space = ConfigurationSpace()
    decoders = []
    for step, found in parts.items():
        space.add_configuration_space(step, found.space, delimiter="__")
        decoders.append((f"{step}__", found.decode))
    names = sorted({found.name for found in parts.values()})
    return EstimatorSpace(space, "+".join(names), _Together(tuple(decoders)))


def one_of(chooser: str, options: Mapping[str, ConfigurationSpace]) -> ConfigurationSpace:
    """A space that is one of several, as a categorical hyperparameter says.

    Args:
        chooser: the name of that hyperparameter.
        options: its values, and for each the space; hyperparameters become "<value>:<name>".
    """
    space = ConfigurationSpace()
    choice = ConfigSpace.CategoricalHyperparameter(chooser, list(options))
    space.add(choice)
    for value, option in options.items():
        parent = {"parent": choice, "value": value}
        space.add_configuration_space(value, option, delimiter=":", parent_hyperparameter=parent)
    return space
