"""ReadySpace: the ready-made space of one estimator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ConfigSpace import ConfigurationSpace

from rankwise.space.shorthand import make_space
from rankwise.types import Configuration

CLASSIFICATION = "classification"
REGRESSION = "regression"
KINDS = (CLASSIFICATION, REGRESSION)

VALUE = "value"
"""A choice that means "use a number": with gamma="value", `gamma_value` is used."""


@dataclass(frozen=True)
class ReadySpace:
    """The ready-made space of a classifier, a regressor, or both.

    It is the same for every data set, so that studies of different data sets share one space.

    Attributes:
        name: "random-forest".
        summary: one-line description.
        classes: path of the class for each kind ("sklearn.svm.SVC").
        parameters: ranges and choices, in the form of `rankwise.make_space`.
        extra: further parameters of one kind, or other ranges for the same names.
        when: conditions, as `make_space` takes them.
        defaults: default values: the estimator's own where the ranges contain them.
        derive: maps a configuration to the estimator's parameters; the identity by default.
        settings: fixed parameters that `make_estimator` sets.
    """

    name: str
    summary: str
    classes: Mapping[str, str]
    parameters: Mapping[str, Any]
    extra: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    when: Mapping[str, Any] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    derive: Callable[[Configuration], dict[str, Any]] = dict
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def estimators(self) -> tuple[str, ...]:
        """The names of the classes."""
        return tuple(path.rpartition(".")[2] for path in self.classes.values())

    @property
    def space(self) -> ConfigurationSpace:
        """The space with the hyperparameters of both kinds; see `space_for` for one kind."""
        return self._make(REGRESSION, CLASSIFICATION)

    def space_for(self, kind: str) -> ConfigurationSpace:
        """Make the search space; `kind` is "classification" or "regression"."""
        space = self._make(kind)
        # It is part of the fingerprint: estimators with equal ranges must not share past studies.
        for hyperparameter in space.values():
            hyperparameter.meta = {"estimator": self.classes[kind].rpartition(".")[2]}
        return space

    def decode(self, configuration: Configuration) -> dict[str, Any]:
        """The arguments of `set_params` for a configuration."""
        params = dict(configuration)
        for name in configuration:
            if params.get(name) == VALUE:
                params[name] = params.pop(f"{name}_{VALUE}")
        return self.derive(params)

    def _make(self, *kinds: str) -> ConfigurationSpace:
        parameters = dict(self.parameters)
        for kind in kinds:
            parameters |= self.extra.get(kind, {})
        return make_space(
            parameters,
            when={name: clause for name, clause in self.when.items() if name in parameters},
            defaults={name: d for name, d in self.defaults.items() if name in parameters},
        )
