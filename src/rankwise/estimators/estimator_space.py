"""EstimatorSpace: a space and the function from configurations to estimator parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import ConfigSpace
import numpy as np
from ConfigSpace import ConfigurationSpace

from rankwise.types import Configuration

Decoder: TypeAlias = Callable[[Configuration], dict[str, Any]]
"""Function from a configuration to parameters; it must be picklable."""


@dataclass(frozen=True)
class EstimatorSpace:
    """The search space of an estimator.

    Attributes:
        space: the space; its values are plain (numbers, strings, bools, None), so that they can
            be stored.
        name: "svc", "random-forest|svc", ...; "" if the user made the space.
        decode: maps a configuration to parameters; the identity by default.
    """

    space: ConfigurationSpace
    name: str
    decode: Decoder = dict

    def params(self, configuration: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of `estimator.set_params`, without inactive hyperparameters."""
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
    """Parameters with a prefix before each name."""
    return {prefix + name: value for name, value in params.items()}


@dataclass(frozen=True)
class _Together:
    """Decodes the parts of a configuration; each prefix has its own decoder."""

    parts: tuple[tuple[str, Decoder], ...]

    def __call__(self, configuration: Configuration) -> dict[str, Any]:
        params: dict[str, Any] = {}
        for prefix, decode in self.parts:
            params |= prefixed(prefix, decode(part(configuration, prefix)))
        return params


def together(parts: Mapping[str, EstimatorSpace]) -> EstimatorSpace:
    """Join several spaces that are searched at the same time.

    Args:
        parts: spaces by pipeline step ("svc", or "union__svc" for a nested step); "" is the
            estimator itself and must be the only key.
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
    """A conditional space in which a categorical hyperparameter chooses one of several spaces.

    Args:
        chooser: name of the categorical hyperparameter.
        options: the space of each value; its hyperparameters are renamed to "<value>:<name>".
    """
    space = ConfigurationSpace()
    choice = ConfigSpace.CategoricalHyperparameter(chooser, list(options))
    space.add(choice)
    for value, option in options.items():
        parent = {"parent": choice, "value": value}
        space.add_configuration_space(value, option, delimiter=":", parent_hyperparameter=parent)
    return space
