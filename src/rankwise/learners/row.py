"""One row of the table of ready-made spaces."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ConfigSpace import ConfigurationSpace

from rankwise.shorthand import make_space
from rankwise.types import Configuration

CLASSIFICATION = "classification"
REGRESSION = "regression"
KINDS = (CLASSIFICATION, REGRESSION)

VALUE = "value"
"""A choice that stands for a number: `gamma` is "scale", or the value of `gamma_value`."""


@dataclass(frozen=True)
class ReadySpace:
    """The ready-made space of an estimator that classifies, one that regresses, or both.

    Spaces are the same for every data set, so that what was learnt on one applies to the next.

    Attributes:
        name: "random-forest".
        summary: one line for a table.
        classes: for each kind that exists the class, "sklearn.svm.SVC".
        parameters: their ranges and choices, as `rankwise.make_space` takes them.
        extra: for each kind further ones, or other ranges and choices for the same names.
        when: conditions, as `make_space` takes them.
        defaults: default values: the estimator's own, as far as the ranges contain them.
        derive: makes what the estimator takes, where that is not the configuration itself.
        settings: what `make_estimator` sets besides.
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
        """Every hyperparameter of the row; `space_for` leaves out those of the other kind."""
        return self._make(REGRESSION, CLASSIFICATION)

    def space_for(self, kind: str) -> ConfigurationSpace:
        """The space of the classifier or of the regressor."""
        space = self._make(kind)
        # Part of the fingerprint: two estimators may have the same ranges and no common past.
        for hyperparameter in space.values():
            hyperparameter.meta = {"estimator": self.classes[kind].rpartition(".")[2]}
        return space

    def decode(self, configuration: Configuration) -> dict[str, Any]:
        """What `set_params` takes."""
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
