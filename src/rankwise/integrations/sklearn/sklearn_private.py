"""The private names of scikit-learn that this library imports, in one place.

`RankwiseSearchCV` extends `BaseSearchCV` and also overrides private methods of it. `make
test-latest` runs the tests with scikit-learn's newest release, so that a change is noticed here
first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sklearn.model_selection._search import BaseSearchCV
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import _num_samples

__all__ = [
    "BaseSearchCV",
    "HasMethods",
    "Interval",
    "StrOptions",
    "num_samples",
    "score_function",
]


def num_samples(X: Any) -> int:
    """The number of rows of anything that scikit-learn takes for a table."""
    return int(_num_samples(X))


def score_function(scorer: Any) -> Callable[..., Any]:
    """The function of `sklearn.metrics` behind a scorer."""
    function: Callable[..., Any] = scorer._score_func
    return function
