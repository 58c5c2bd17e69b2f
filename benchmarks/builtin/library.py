"""The only place in this folder that imports rankwise for the collector."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils import get_tags

from rankwise.cli.tune.plan import UNSCALED
from rankwise.context import Context
from rankwise.estimators import EstimatorSpace, make_estimator, space_of
from rankwise.space.design import initial_design
from rankwise.space.encoder import Encoder
from rankwise.tabular import Preparation

CLASSIFICATION, REGRESSION = "classification", "regression"
KINDS = (CLASSIFICATION, REGRESSION)

DEFAULT, SHARED, OWN = "default", "shared", "own"
N_SHARED, N_OWN = 24, 40

_BOTH = (CLASSIFICATION, REGRESSION)
LEARNERS: dict[str, tuple[str, ...]] = {
    "svc": _BOTH,
    "logistic-regression": (CLASSIFICATION,),
    "ridge": _BOTH,
    "k-neighbors": _BOTH,
    "decision-tree": _BOTH,
    "linear-svc": _BOTH,
    "lasso": (REGRESSION,),
    "elastic-net": (REGRESSION,),
    "sgd": _BOTH,
    "random-forest": _BOTH,
    "extra-trees": _BOTH,
    "hist-gradient-boosting": _BOTH,
    "lightgbm": _BOTH,
    "xgboost": _BOTH,
    "mlp": _BOTH,
    "gradient-boosting": _BOTH,
    "catboost": _BOTH,
}
"""Rows of the table of ready-made spaces and the kinds to collect, in the order of collection."""


@dataclass(frozen=True)
class Learner:
    """A row of the table of ready-made spaces for one kind of problem.

    Attributes:
        name: name of the row.
        kind: "classification" or "regression".
        estimator: the estimator with its settings, single-threaded, not fitted.
        space: its ready-made space.
        encoder: encoder of that space.
    """

    name: str
    kind: str
    estimator: Any
    space: EstimatorSpace
    encoder: Encoder

    @classmethod
    def of(cls, name: str, kind: str, seed: int = 0) -> Learner:
        """Make a learner; every random choice inside the estimator uses `seed`."""
        estimator = make_estimator(name, kind, seed)
        if "n_jobs" in estimator.get_params():
            estimator.set_params(n_jobs=1)
        space = space_of(estimator)
        return cls(name, kind, estimator, space, Encoder(space.space))

    @property
    def conditional(self) -> list[str]:
        """Names of the hyperparameters that may be inactive."""
        return list(self.encoder.activity)

    def preparation(self) -> Preparation:
        """The transformer that `rankwise tune` puts in front of this learner, not fitted."""
        impute = not get_tags(self.estimator).input_tags.allow_nan
        return Preparation(impute=impute, scale=self.name not in UNSCALED)

    def params(self, configuration: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments of `set_params` for a configuration."""
        return self.space.params(configuration)

    def designs(self, dataset: str, own: int = N_OWN) -> list[tuple[str, dict[str, Any]]]:
        """All evaluations of a data set as (design, configuration) pairs, without repetition.

        First the default configuration, then a maximin Latin hypercube that is the same for all
        data sets, then `own` of a Sobol sequence that is seeded by the name of the data set.
        """
        label = f"{self.name}/{self.kind}"
        pairs = [(DEFAULT, _plain(self.encoder.default))]
        pairs += self._new(pairs, SHARED, "lhs", N_SHARED, label)
        return pairs + self._new(pairs, OWN, "sobol", N_OWN, f"{label}/{dataset}")[:own]

    def _new(
        self, before: list[tuple[str, dict[str, Any]]], design: str, kind: str, n: int, label: str
    ) -> list[tuple[str, dict[str, Any]]]:
        """The n first configurations of a design that are not there already."""
        known = {key(configuration) for _, configuration in before}
        size = n
        while True:  # a larger design where some of it is known already
            size = int(min(size, self.encoder.size))
            X = initial_design(self.encoder, size, kind, np.random.default_rng(_seed(label)))
            made = [_plain(configuration) for configuration in self.encoder.decode(X)]
            found = [(design, c) for c in made if key(c) not in known][:n]
            if len(found) == n or size >= self.encoder.size:
                return found
            size += n - len(found)


def context_numbers(X: pd.DataFrame, y: np.ndarray, kind: str) -> dict[str, float]:
    """Numbers that `RankwiseSearchCV` keeps about a data set; rows are not kept."""
    return dict(Context.of(X, y, classification=kind == CLASSIFICATION, rows=0))


def key(configuration: Mapping[str, Any]) -> str:
    """Text that is equal for equal configurations."""
    return repr(sorted(configuration.items()))


def significant(number: float, digits: int = 6) -> float:
    """A number rounded to a few significant digits."""
    return float(f"{number:.{digits}g}")


def _plain(configuration: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration of plain values; numbers are rounded before they are evaluated."""
    plain = {
        name: value.item() if isinstance(value, np.generic) else value
        for name, value in configuration.items()
    }
    return {n: significant(v) if isinstance(v, float) else v for n, v in plain.items()}


def _seed(label: str) -> int:
    return int.from_bytes(hashlib.sha256(label.encode()).digest()[:8], "big")
