"""Meta-features: right where that can be computed otherwise, and there for any data set."""

from __future__ import annotations

import doctest
import json
import math

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import scipy.stats

import rankwise.context.metafeatures as module
from rankwise.context import data_digest, meta_features

RNG = np.random.default_rng(0)
X = np.column_stack([RNG.exponential(size=300), RNG.normal(size=300), RNG.integers(0, 2, 300)])


def test_the_example():
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0


def test_moments_and_correlations_are_those_of_scipy():
    facts = meta_features(X)
    assert facts["mean_skewness"] == pytest.approx(scipy.stats.skew(X).mean())
    assert facts["mean_kurtosis"] == pytest.approx(scipy.stats.kurtosis(X).mean())
    correlation = np.abs(np.corrcoef(X.T))[np.triu_indices(3, 1)]
    assert facts["mean_abs_correlation"] == pytest.approx(correlation.mean())
    assert facts["share_zero"] == pytest.approx((X == 0).mean())
    assert facts["log_rows_per_column"] == pytest.approx(math.log(100))


def test_missing_values_are_left_out_of_the_moments():
    holes = X.copy()
    holes[::3, 0] = np.nan
    holes[1, 1] = np.inf
    facts = meta_features(holes)
    expected = [scipy.stats.skew(c[np.isfinite(c)]) for c in holes.T]
    assert facts["mean_skewness"] == pytest.approx(np.mean(expected))
    assert facts["share_missing"] == pytest.approx(1 / 9)


def test_a_table_of_many_kinds():
    table = pd.DataFrame(
        {
            "number": [1.5, None, 3.0, 4.0],
            "text": ["x", "y", None, "x"],
            "category": pd.Categorical(["u", "v", "u", "u"]),
            "date": pd.to_datetime(["2020-01-01"] * 4),
            "truth": [True, False, True, True],
            "whole": pd.array([1, None, 3, 4], dtype="Int64"),
        }
    )
    facts = meta_features(table, pd.Series(["p", "q", "p", "p"]))
    assert facts["share_categorical"] == 0.5
    assert facts["share_missing"] == pytest.approx(3 / 24)
    assert (facts["classes"], facts["smallest_class"], facts["largest_class"]) == (2, 0.25, 0.75)
    objects = meta_features(table.to_numpy(dtype=object), ["p", "q", "p", "p"])
    assert objects["share_missing"] == facts["share_missing"]
    assert objects["columns"] == 6


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "lil"])
def test_sparse_matrices_are_as_their_dense_forms(kind):
    matrix = scipy.sparse.random(200, 30, 0.1, format=kind, random_state=0)
    sparse, dense = meta_features(matrix), meta_features(matrix.toarray())
    assert sparse == pytest.approx(dense)


def test_the_target_says_what_it_is():
    classes = meta_features(X, np.repeat([3, 7, 9], 100))
    assert classes["classes"] == 3 and classes["class_entropy"] == pytest.approx(1)
    assert classes["target_skewness"] == 0
    numbers = meta_features(X, X[:, 0])
    assert numbers["classes"] == 0
    assert numbers["target_skewness"] == pytest.approx(scipy.stats.skew(X[:, 0]))
    told = meta_features(X, np.repeat([3, 7, 9], 100), classification=False)
    assert told["classes"] == 0 and told["target_kurtosis"] < 0
    single = meta_features(X, np.zeros(300), classification=True)
    assert (single["classes"], single["class_entropy"], single["largest_class"]) == (1, 0, 1)
    several = meta_features(X, X[:, :2])
    assert several["target_skewness"] == pytest.approx(scipy.stats.skew(X[:, 0]))


ODD = {
    "one row": np.ones((1, 3)),
    "no rows": np.empty((0, 3)),
    "no columns": np.empty((3, 0)),
    "nothing there": np.full((4, 2), np.nan),
    "constant": np.ones((5, 2)),
    "huge": np.array([[1e308, -1e308], [np.inf, 1e308], [-1e308, 0.0]]),
    "list": [[1, 2], [3, 4]],
    "texts": np.array([["a", "b"], ["c", "d"]]),
    "whole numbers": np.arange(12).reshape(4, 3),
    "empty sparse": scipy.sparse.csr_matrix((5, 4)),
}


@pytest.mark.parametrize("data", ODD.values(), ids=ODD)
@pytest.mark.filterwarnings("error")
def test_any_data_set_has_the_same_finite_numbers(data):
    facts = meta_features(data)
    assert facts.keys() == meta_features(X, X[:, 0]).keys()
    assert all(type(v) is float and math.isfinite(v) for v in facts.values())
    assert json.loads(json.dumps(facts)) == facts


def test_of_large_data_some_rows_are_looked_at():
    many = np.tile(X, (200, 1))
    facts = meta_features(many, np.arange(len(many)) % 4)
    assert facts["rows"] == 60_000
    assert facts["mean_skewness"] == pytest.approx(scipy.stats.skew(X).mean(), rel=0.2)
    assert facts["class_entropy"] > 0.99
    wide = meta_features(np.tile(X, (1, 100)))
    assert wide["columns"] == 300 and wide["share_zero"] == pytest.approx((X == 0).mean(), rel=0.3)


def test_one_dimension_is_no_data_set():
    with pytest.raises(ValueError, match="rows and columns"):
        meta_features(np.zeros(5))


def test_a_digest_is_of_the_values():
    y = X[:, 0]
    digest = data_digest(X, y)
    assert len(digest) == 8
    assert digest == data_digest(np.asfortranarray(X), y.copy())
    assert digest != data_digest(X + 1, y)
    assert digest != data_digest(X, y + 1)
    assert digest != data_digest(X)
    frame = pd.DataFrame({"a": ["x", "y"], "b": [1.0, None]})
    assert data_digest(frame) == data_digest(frame.copy(), None)
    assert data_digest(frame) != data_digest(frame.assign(a=["x", "z"]))
    sparse = scipy.sparse.csr_matrix(X)
    assert data_digest(sparse) == data_digest(sparse.tocsc()) != data_digest(sparse * 2)
    assert data_digest([[1, "a"], [2, "b"]]) != data_digest([[1, "a"], [2, "c"]])
