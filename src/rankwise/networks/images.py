"""Preparation of images and rows for a network: shape, scale, validation split and score."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import get_scorer, log_loss

from rankwise.errors import GeometryError, OptionError
from rankwise.networks.layers import Shape, image_shape
from rankwise.types import Array, Counts

Floats = npt.NDArray[np.float32]
Metric = Callable[[Any, Any], float]


def shape_of(X: Floats, input_shape: Sequence[int] | None) -> Shape:
    """Return the shape of one row of X: (h, w, c) or (d,).

    Args:
        X: images (n, h, w) or (n, h, w, c), or rows (n, d).
        input_shape: (h, w) or (h, w, c) if the d columns are an image, else None.

    Raises:
        OptionError: X has a wrong number of dimensions.
        GeometryError: the rows of X do not have the shape `input_shape`.
    """
    given = X.shape[1:]
    if not 1 <= len(given) <= 3:
        raise OptionError(f"X must be (n, d), (n, h, w) or (n, h, w, c), not {X.shape}")
    if input_shape is None:
        return image_shape(given)
    shape = image_shape(input_shape)
    same = image_shape(given) == shape if len(given) > 1 else given[0] == prod(shape)
    if not same:
        raise GeometryError(f"rows of shape {given} do not fit input_shape {tuple(input_shape)}")
    return shape


def channels_first(X: Floats, shape: Shape) -> Floats:
    """Reshape X to images (n, c, h, w) if the shape is (h, w, c), or to rows (n, d)."""
    X = X.reshape(len(X), *shape)
    return X if len(shape) == 1 else np.ascontiguousarray(X.transpose(0, 3, 1, 2))


@dataclass(frozen=True)
class Scale:
    """Mean and standard deviation of each channel (images) or column (rows)."""

    mean: Floats
    deviation: Floats

    @classmethod
    def of(cls, X: Floats) -> Scale:
        """Compute the scale of images (n, c, h, w) or rows (n, d)."""
        axes = (0, 2, 3) if X.ndim == 4 else (0,)
        mean = X.mean(axis=axes, dtype=np.float64, keepdims=True)
        deviation = X.std(axis=axes, dtype=np.float64, keepdims=True)
        deviation[~(deviation > 1e-12 * np.abs(mean))] = 1.0  # constant channels or columns
        return cls(mean.astype(np.float32), deviation.astype(np.float32))

    def __call__(self, X: Floats) -> Floats:
        scaled: Floats = (X - self.mean) / self.deviation
        return scaled


def kept_apart(y: Counts, ratio: float, seed: int) -> Counts:
    """Choose rows for validation: about `ratio` of every class, but never all rows of a class.

    At least one row is chosen.

    Args:
        y: indices of classes (n,).
        ratio: share of the rows, between 0 and 1.
        seed: seed of the choice.

    Returns:
        Row numbers in ascending order.

    Raises:
        OptionError: the ratio is not between 0 and 1, or every class has only one row.
    """
    if not 0 < ratio < 1:
        raise OptionError(f"the validation share must be between 0 and 1, not {ratio!r}")
    rng = np.random.default_rng(seed)
    chosen: list[Counts] = []
    for label in np.unique(y):
        rows = rng.permutation(np.flatnonzero(y == label))
        # Random rounding, so that the total share is also right for many small classes.
        count = int(np.floor(ratio * len(rows) + rng.random()))
        chosen.append(rows[: min(count, len(rows) - 1)])
    kept = np.sort(np.concatenate(chosen))
    if not len(kept):
        counts = np.bincount(y)
        if counts.max() < 2:
            raise OptionError(
                f"no row can be held out for validation: each of the {len(y)} rows is the only "
                "one of its class"
            )
        kept = np.flatnonzero(y == counts.argmax())[:1]
    return kept


def epoch_score(
    metric: str | Metric, classes: npt.NDArray[Any], y: Counts
) -> Callable[[Array], float]:
    """Make a function that maps probabilities (n, k) to a score; larger is better.

    Args:
        metric: name of a scikit-learn scorer, or a function `metric(y_true, y_predicted)`.
        classes: labels (k,).
        y: indices of the true classes (n,).

    Raises:
        OptionError: scikit-learn has no scorer of this name.
    """
    truth = classes[y]
    if callable(metric):
        own: Metric = metric
        return lambda probabilities: own(truth, classes[probabilities.argmax(axis=1)])
    try:
        scorer = get_scorer(metric)
    except ValueError as error:
        raise OptionError(f"unknown metric {metric!r}; see sklearn.metrics.get_scorer") from error
    if metric == "neg_log_loss":  # the scorer fails if a class has no row
        return lambda probabilities: -float(log_loss(truth, probabilities, labels=classes))

    def score(probabilities: Array) -> float:
        try:
            return float(scorer(_Predicted(probabilities, classes), truth, truth))
        except ValueError as error:
            raise OptionError(
                f"metric {metric!r} cannot be computed on the validation rows, which have "
                f"{len(np.unique(y))} of {len(classes)} classes: {error}"
            ) from error

    return score


class _Predicted(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Fitted classifier with given probabilities, to call a scorer of scikit-learn."""

    def __init__(self, probabilities: Array, classes: npt.NDArray[Any]) -> None:
        self.probabilities = probabilities
        self.classes_ = classes

    def predict(self, X: Any) -> npt.NDArray[Any]:
        return np.asarray(self.classes_[self.probabilities.argmax(axis=1)])

    def predict_proba(self, X: Any) -> Array:
        return self.probabilities
