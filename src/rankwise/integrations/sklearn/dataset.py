"""Data: the data set of a search, and facts about it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.base import is_classifier, is_regressor

from rankwise.context.data import Context
from rankwise.context.metafeatures import data_digest, meta_features
from rankwise.errors import RunWarning
from rankwise.integrations.sklearn.sklearn_private import num_samples


@dataclass(frozen=True)
class Data:
    """A data set and how it is split.

    Attributes:
        X: n rows in any form that scikit-learn accepts.
        y: the target (n,) or (n, m), or None.
        estimator: the estimator that is fitted.
        split_params: arguments of the splitter, such as groups.
    """

    X: Any
    y: Any
    estimator: Any
    split_params: Mapping[str, Any] = field(default_factory=dict)

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return num_samples(self.X)

    @cached_property
    def labels(self) -> Any:
        """The class (n,) of each row as a number; None unless there is one class per row."""
        if not is_classifier(self.estimator) or self.y is None or hasattr(self.y, "toarray"):
            return None
        import pandas as pd

        y = np.asarray(self.y)
        if y.ndim == 2 and y.shape[1] == 1:
            y = y[:, 0]
        return pd.factorize(y)[0] if y.ndim == 1 and len(y) else None

    @property
    def classes(self) -> int | None:
        """The number of classes."""
        return None if self.labels is None else int(self.labels.max()) + 1

    @cached_property
    def digest(self) -> str:
        """Digest of the values; "data" if they cannot be digested."""
        try:
            return data_digest(self.X, self.y)
        except Exception:  # scikit-learn will raise a better error
            return "data"

    def features(self, *, rows: bool = False) -> Mapping[str, float]:
        """Meta-features; none, with a warning, if they cannot be computed.

        Args:
            rows: True to include rows of the data and more features.
        """
        classification = is_classifier(self.estimator)
        try:
            if rows:
                return Context.of(self.X, self.y, classification=classification)
            try:  # with the features that built-in studies have, too
                return dict(Context.of(self.X, self.y, classification=classification, rows=0))
            except Exception:
                return meta_features(self.X, self.y, classification=classification)
        except Exception as error:
            warnings.warn(
                f"the meta-features of the data set cannot be computed ({error}); the search "
                "goes on without them",
                RunWarning,
                stacklevel=2,
            )
            return {}

    def facts(self, scoring: Any, n_splits: int) -> dict[str, Any]:
        """The facts that are stored with a search."""
        shape: tuple[int, ...] = getattr(self.X, "shape", ())
        return {
            "scoring": self.scoring_name(scoring),
            "n_splits": n_splits,
            "n_rows": self.n_rows,
            "n_columns": int(shape[1]) if len(shape) > 1 else None,
            "classes": self.classes,
            "data": self.digest,
        }

    def scoring_name(self, scoring: Any) -> str:
        """The name of a scorer; several are separated by commas."""
        if scoring is None:  # the default score of these kinds has a name
            kinds = {"accuracy": is_classifier, "r2": is_regressor}
            return next((name for name, test in kinds.items() if test(self.estimator)), "score")
        if isinstance(scoring, str):
            return scoring
        if callable(scoring):
            return str(getattr(scoring, "__name__", type(scoring).__name__))
        return ", ".join(scoring)
