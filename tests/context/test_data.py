"""Contexts of data sets and their embeddings."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch

from rankwise import Context
from rankwise.context import DataEmbedding, DataRows, handmade_features
from rankwise.context.embedding import conditional_operator, cross_covariance, mean_embedding
from rankwise.errors import OptionError

RNG = np.random.default_rng(0)


def features(s, a, seed):
    return torch.as_tensor(np.random.default_rng(seed).normal(size=(s, a)))


# ---------------------------------------------------------------------- formulas


def test_the_operator_is_the_same_by_both_forms():
    phi_x, phi_y, weight = features(30, 4, 0), features(30, 3, 1), 0.07
    s = len(phi_x)
    dual = phi_y.T @ torch.linalg.inv(phi_x @ phi_x.T + weight * s * torch.eye(s)) @ phi_x
    assert torch.allclose(conditional_operator(phi_x, phi_y, weight), dual, atol=1e-10)
    # The paper's second form, with its lambda, which is ours times s.
    lam = weight * s
    inner = torch.linalg.inv(lam * torch.eye(4) + phi_x.T @ phi_x)
    woodbury = phi_y.T @ (torch.eye(s) - phi_x @ inner @ phi_x.T) @ phi_x / lam
    assert torch.allclose(conditional_operator(phi_x, phi_y, weight), woodbury, atol=1e-10)


def test_the_operator_does_not_depend_on_how_often_rows_are_repeated():
    phi_x, phi_y = features(20, 4, 0), features(20, 3, 1)
    once = conditional_operator(phi_x, phi_y, 0.1)
    twice = conditional_operator(phi_x.repeat(2, 1), phi_y.repeat(2, 1), 0.1)
    assert torch.allclose(once, twice)


def test_cross_covariance_and_mean_by_loops():
    phi_x, phi_y = features(15, 4, 0), features(15, 2, 1)
    total = sum(torch.outer(x, y) for x, y in zip(phi_x, phi_y, strict=True)) / 15
    assert torch.allclose(cross_covariance(phi_x, phi_y), total)
    assert torch.allclose(mean_embedding(phi_x), sum(phi_x) / 15)
    batched = cross_covariance(torch.stack([phi_x, 2 * phi_x]), torch.stack([phi_y, phi_y]))
    assert torch.allclose(batched[1], 2 * total)


def test_classes_are_embedded_each_by_itself():
    data = DataRows(RNG.normal(size=(12, 3)), np.repeat([0.0, 1.0, 2.0], 4), 3, np.full(3, 1 / 3))
    embedding = DataEmbedding.fitting("auto", [data])
    with torch.no_grad():
        [vector] = embedding([data])
        phi = embedding.phi_x(torch.as_tensor(data.X))
    means = torch.stack([phi[data.y == c].mean(0) / 3 for c in range(3)], 1)  # share times mean
    assert torch.allclose(vector[:30].reshape(10, 3), means)
    assert vector[30:].tolist() == pytest.approx([1 / 3] * 3)


@pytest.mark.parametrize("kind", ["both", "marginal", "conditional", "joint", "cross", "pairs"])
def test_embeddings_do_not_depend_on_the_order_of_rows(kind):
    torch.manual_seed(0)
    X, y = RNG.normal(size=(40, 3)), RNG.random(40)
    order = RNG.permutation(40)
    data = [DataRows(X, y, 0, np.empty(0)), DataRows(X[order], y[order], 0, np.empty(0))]
    vectors = DataEmbedding.fitting(kind, data)(data)
    assert torch.allclose(vectors[0], vectors[1])
    other = DataRows(X + 1.0, y, 0, np.empty(0))
    assert not torch.allclose(DataEmbedding.fitting(kind, [other])([other])[0], vectors[0])


def test_pairs_serve_data_sets_of_any_width_and_order_of_columns():
    X, y = RNG.normal(size=(40, 3)), RNG.random(40)
    wide = DataRows(RNG.normal(size=(30, 7)), RNG.random(30), 0, np.empty(0))
    narrow, turned = (DataRows(X[:, c], y, 0, np.empty(0)) for c in ([0, 1, 2], [2, 0, 1]))
    embedding = DataEmbedding.fitting("auto", [narrow, wide])
    assert embedding.kind == "pairs" and embedding.accepts(wide)
    vectors = embedding([narrow, turned, wide])
    assert torch.allclose(vectors[0], vectors[1]) and not torch.allclose(vectors[0], vectors[2])
    with pytest.raises(OptionError, match="same columns"):
        DataEmbedding.fitting("both", [narrow, wide])


def test_some_rows_estimate_what_all_rows_give():
    torch.manual_seed(0)
    data = [DataRows(RNG.normal(size=(4000, 2)), RNG.random(4000), 0, np.empty(0))]
    embedding = DataEmbedding.fitting("marginal", data)
    with torch.no_grad():
        whole = embedding(data)
        rng = np.random.default_rng(0)
        parts = torch.stack([embedding(data, 200, rng) for _ in range(50)])
    assert parts.std(0).max() > 0
    assert torch.allclose(parts.mean(0), whole, atol=0.02)


def test_a_network_of_ones_own():
    data = DataRows(RNG.normal(size=(10, 4)), None, 0, np.empty(0))
    own = torch.nn.Linear(4, 2).double()
    embedding = DataEmbedding.fitting("auto", [data], own)
    assert embedding([data]).shape == (1, 2)
    assert any(p is own.weight for p in embedding.parameters())


# ---------------------------------------------------------------------- data of all kinds


def frame():
    return pd.DataFrame(
        {
            "text": ["a", "b", None, "a"] * 10,
            "number": [1.0, np.nan, np.inf, 4.0] * 10,
            "constant": 7,
            "empty": np.nan,
        }
    )


@pytest.mark.parametrize(
    ("X", "y", "classes"),
    [
        (frame(), ["u", "v", "u", "w"] * 10, 3),
        (frame(), np.linspace(0, 1, 40), 0),
        (np.zeros((5, 2)), [1, 1, 1, 1, 1], 1),
        (RNG.normal(size=(3, 2)), [0.1, 0.2, 0.7], 0),
        (RNG.normal(size=(1, 1)), None, 0),
        (scipy.sparse.random(50, 900, 0.1, format="csr", random_state=0), np.arange(50) % 2, 2),
        ([[1, "x"], [2, "y"], [3, "x"]], ["p", "q", "p"], 2),
        (RNG.normal(size=(20, 2)), np.where(np.arange(20) % 7, 0.3, np.nan) * np.arange(20), 0),
    ],
)
def test_any_data_become_finite_numbers(X, y, classes):
    context = Context.of(X, y)
    assert context.rows is not None and context.rows.classes == classes
    assert np.isfinite(context.rows.X).all() and context.rows.X.shape[1] <= 500
    assert context.rows.y is None or np.isfinite(context.rows.y).all()
    assert all(np.isfinite(value) for value in context.values())
    assert np.abs(context.rows.X.mean(axis=0)).max() < 1e-6


def test_millions_of_rows_are_not_read(tmp_path):
    big = np.lib.format.open_memmap(tmp_path / "X.npy", "w+", np.float32, (1_200_000, 3))
    big[::1000] = 1.0
    y = np.lib.format.open_memmap(tmp_path / "y.npy", "w+", np.int8, (1_200_000,))
    context = Context.of(big, y, classification=True, rows=500)
    assert context.size == 1_200_000 and context.rows.X.shape == (500, 3)


def test_wrong_data_are_refused():
    with pytest.raises(OptionError, match="3 rows and its target has 2"):
        Context.of(np.zeros((3, 2)), [1, 2])
    for bad in (np.zeros((0, 2)), np.zeros((2, 0)), np.zeros(3)):
        with pytest.raises(OptionError, match="rows and columns"):
            Context.of(bad)


def test_a_context_is_a_mapping_of_its_numbers_and_shows_no_row():
    X = np.full((4, 1), 0.123456789)
    X[0] = 987.654321
    context = Context.of(X, standardize=False)
    assert "987" not in repr(context) and "987" not in repr(context.rows)
    assert dict(context)["columns"] == 1.0
    assert Context.of(X, rows=0).rows is None
    bare = context.without_rows()
    assert bare.rows is None and dict(bare) == dict(context)


def test_handmade_features_are_thirteen_and_see_what_they_should():
    X = RNG.normal(size=(400, 3))
    classes = (X[:, 0] > 0).astype(float)
    easy = handmade_features(X, classes, classes=2)
    hard = handmade_features(X, RNG.integers(2, size=400).astype(float), classes=2)
    assert len(easy) == 13 and len(handmade_features(X, X[:, 0])) == 13
    assert easy["hand_landmark_tree"] > 0.95 > 0.7 > hard["hand_landmark_tree"]
    skewed = handmade_features(np.exp(X), None)
    assert skewed["hand_skewness"] > 1 > abs(handmade_features(X, None)["hand_skewness"])
    assert handmade_features(X + 5.0, None)["hand_mean"] == pytest.approx(5.0, abs=0.2)


def test_few_rows_are_drawn_from_all():
    X = np.repeat(np.arange(3.0), 50)[:, None]
    y = np.repeat(["a", "b", "c"], 50)
    context = Context.of(X, y, rows=30)
    assert len(context.rows.X) == 30 and len(np.unique(context.rows.y)) == 3
    assert context.rows.ratios == pytest.approx([1 / 3] * 3)


def test_a_single_class_has_no_landmarks():
    for X in (RNG.normal(size=(40, 2)), np.zeros((5, 2))):
        numbers = Context.of(X, ["a"] * len(X))
        assert all(v == 0.0 for name, v in numbers.items() if "landmark" in name)
    Context.of(RNG.normal(size=(10, 2)), ["a"] * 9 + ["b"])


def test_rows_without_a_label_are_left_out():
    y = np.array([0.0, 1.0, np.nan, 1.0] * 10)
    context = Context.of(RNG.normal(size=(40, 2)), y)
    assert context.rows.classes == 2 and len(context.rows.X) == 30
    assert Context.of(RNG.normal(size=(4, 2)), [np.nan] * 4).rows.y is None


def test_other_classes_are_not_taken_for_the_same():
    X = RNG.normal(size=(20, 2))
    data = [Context.of(X, labels * 10).rows for labels in (["a", "b"], ["b", "c"])]
    assert DataEmbedding.fitting("auto", data).kind == "pairs"
    assert not DataEmbedding.fitting("auto", data[:1]).accepts(data[1])
    assert DataEmbedding.fitting("auto", [data[0], data[0]]).kind == "cross"


def test_columns_of_intervals_and_dates():
    frame = pd.DataFrame({"x": np.arange(20.0)})
    frame["cut"] = pd.cut(frame["x"], 4)
    frame["when"] = pd.date_range("2020-01-01", periods=20)
    context = Context.of(frame)
    assert np.isfinite(context.rows.X).all()
    assert np.corrcoef(context.rows.X[:, 0], context.rows.X[:, 2])[0, 1] > 0.99


def test_a_small_data_set_does_not_shrink_the_others():
    seen = []
    torch.manual_seed(0)
    data = [DataRows(RNG.normal(size=(n, 2)), None, 0, np.empty(0)) for n in (1000, 5, 1000)]
    embedding = DataEmbedding.fitting("marginal", data)
    embedding.phi_x.register_forward_hook(lambda _, inputs, __: seen.append(inputs[0].shape[-2]))
    embedding(data, 300, np.random.default_rng(0))
    assert seen == [300, 5, 300]


def test_contexts_of_another_kind_are_refused():
    from rankwise import Optimizer

    for bad, message in ((8, "not int"), ({"a": "b"}, "'a' must be a number")):
        with pytest.raises(OptionError, match=message):
            Optimizer({"x": (0.0, 1.0)}, method="dre-ri", context=bad)
