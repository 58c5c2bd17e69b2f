"""Larger networks that start as the function of smaller ones."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rankwise.errors import OptionError
from rankwise.networks import Conv, ConvNetClassifier, Dense
from rankwise.networks.modules import Network
from rankwise.networks.morphism import morph

SAME = {"padding": "same"}
POOLED = {"padding": "same", "pool": "max", "pool_kernel": 3, "pool_stride": 2}


def made(layers, shape=(7, 9, 2), seed=0, **options):
    """A network whose statistics of batches are not those of a new one."""
    torch.manual_seed(seed)
    network = Network(layers, shape, 4, **options)
    with torch.no_grad():
        for _ in range(3):
            network.train()(2 * images(network, 20) + 1)
    return network.eval()


def images(network, n=11):
    shape = network.input_shape
    return torch.randn(n, *((shape[2], *shape[:2]) if len(shape) == 3 else shape))


PRESERVED = {
    "the same": ((Conv(3, **POOLED), Dense(5)), (Conv(3, **POOLED), Dense(5))),
    "wider dense": ((Dense(5, "tanh"), Dense(3)), (Dense(9, "tanh"), Dense(12))),
    "wider conv": ((Conv(3), Conv(4, 2), Dense(5)), (Conv(7), Conv(5, 2), Dense(8))),
    "deeper dense": ((Dense(5),), (Dense(5), Dense(6), Dense(11))),
    "deeper conv": (
        (Conv(3, **POOLED), Dense(5)),
        (Conv(3, **POOLED), Conv(4, 5, **SAME), Dense(5)),
    ),
    "deeper after a sigmoid": ((Dense(5, "sigmoid"),), (Dense(5, "sigmoid"), Dense(5))),
    "deeper and wider": (
        (Conv(3, 3, padding=1), Dense(5)),
        (Conv(8, 3, padding=1), Conv(9, 5, dilation=2, **SAME), Dense(12), Dense(6)),
    ),
    "narrow after wide": ((Dense(4),), (Dense(9), Dense(4))),
    "larger kernel": ((Conv(3, 3, **SAME), Dense(5)), (Conv(4, 5, **SAME), Dense(5))),
    "larger kernel and padding": ((Conv(3, (1, 3)),), (Conv(3, (3, 5), padding=1),)),
    "strides": (
        (Conv(3, 3, stride=2, padding=1), Dense(5, "gelu")),
        (Conv(5, 5, stride=2, padding=2), Dense(7, "gelu")),
    ),
    "pooling of one cell": (
        (Conv(3),),
        (Conv(3), Conv(3, 1, pool="max", pool_kernel=1, pool_stride=1)),
    ),
}


@pytest.mark.parametrize("case", sorted(PRESERVED))
@pytest.mark.parametrize("seed", [0, 1])
def test_outputs_are_preserved(case, seed):
    before, after = PRESERVED[case]
    old, new = made(before, seed=seed), made(after, seed=seed + 5)
    found = morph(old, new)
    assert found.preserved, found.notes
    x = images(old)
    torch.testing.assert_close(new(x), old(x), rtol=1e-4, atol=1e-4)


@st.composite
def grown(draw):
    """Layers, and what may become of them: wider, larger kernels, further layers in between."""
    same = st.sampled_from([0, 1, "same"])
    kinds = st.sampled_from(["relu", "relu", "relu", "sigmoid", "tanh"])
    before, after = [], []
    for _ in range(draw(st.integers(0, 2))):
        kernel, stride, padding = draw(st.integers(1, 3)), draw(st.integers(1, 2)), draw(same)
        pool = draw(st.sampled_from([None, "max", "average", "sum"]))
        common = {"stride": stride, "activation": draw(kinds), "pool": pool, "pool_stride": 1}
        before.append(Conv(3, kernel, padding=padding, **common))
        more = draw(st.integers(0, 2))
        larger = padding if padding == "same" else padding + draw(st.integers(0, more))
        after.append(Conv(3 + draw(st.integers(0, 3)), kernel + more, padding=larger, **common))
    for _ in range(draw(st.integers(0, 2))):
        after.append(Conv(7, draw(st.integers(1, 4)), padding="same", activation=draw(kinds)))
    for _ in range(draw(st.integers(0, 2))):
        activation = draw(kinds)
        before.append(Dense(4, activation))
        after.append(Dense(4 + draw(st.integers(0, 3)), activation))
    for _ in range(draw(st.integers(0, 1))):
        after.append(Dense(8, draw(kinds)))
    return tuple(before), tuple(after)


@settings(deadline=None, max_examples=80)
@given(grown(), st.booleans())
def test_what_is_said_to_be_preserved_is(layers, batch_norm):
    before, after = layers
    options = {"shape": (20, 18, 2), "batch_norm": batch_norm}
    old, new = made(before, **options), made(after, seed=1, **options)
    if morph(old, new).preserved:
        x = images(old)
        torch.testing.assert_close(new(x), old(x), rtol=1e-3, atol=1e-4)


def test_batch_normalisation_is_carried_over():
    old = made((Conv(3, **POOLED), Dense(5)), batch_norm=True)
    new = made((Conv(6, **POOLED), Dense(9)), batch_norm=True, seed=1)
    x = images(old)
    assert morph(old, new).preserved
    torch.testing.assert_close(new(x), old(x), rtol=1e-4, atol=1e-4)
    deeper = Network((Conv(3, **POOLED), Conv(3, **SAME), Dense(5)), (7, 9, 2), 4, batch_norm=True)
    [note] = morph(old, deeper).notes
    assert "layer 2 has new batch normalization" in note
    torch.testing.assert_close(deeper.eval()(x), old(x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("before", "after", "note"),
    [
        (
            (Dense(5, "tanh"),),
            (Dense(5, "tanh"), Dense(5)),
            "layer 2 is new, and its input may be negative",
        ),
        ((Dense(5),), (Dense(5), Dense(5, "tanh")), "layer 2 is new and has the activation tanh"),
        ((Dense(5),), (Dense(5, "tanh"),), "layer 1 has the activation tanh, not relu"),
        ((Dense(5),), (Dense(4),), "layer 1 has 4 of 5"),
        (
            (Dense(5),),
            (Dense(5), Dense(4)),
            "layer 2 is new and too narrow to be the identity of its 5 inputs",
        ),
        ((Conv(3),), (Conv(3), Conv(3, **POOLED)), "layer 2 is new and has pooling"),
        ((Conv(3),), (Conv(3), Conv(3, 3, stride=2)), "layer 2 covers other cells"),
        ((Conv(3),), (Conv(3), Conv(3, 4, dilation=2, **SAME)), "layer 2 covers other cells"),
        ((Conv(3, **POOLED),), (Conv(3, **SAME),), "layer 1 has another pooling"),
        ((Conv(3, 5),), (Conv(3, 3),), "layer 1 has a smaller kernel"),
        ((Conv(3), Conv(3)), (Conv(3), Dense(5)), "layer 2 is new and too narrow"),
        ((Conv(3), Conv(3), Dense(5)), (Conv(3), Dense(5)), "layer 2 keeps its own weights"),
        ((), (Conv(2, **SAME),), "layer 1 is new, and its input may be negative"),
    ],
)
def test_what_cannot_be_preserved_is_said(before, after, note):
    found = morph(made(before), made(after, seed=1))
    assert not found.preserved
    assert any(said.startswith(note) for said in found.notes), found.notes


def test_what_fits_is_copied():
    old, new = made((Dense(5), Dense(5))), made((Dense(8), Dense(5, "tanh")), seed=1)
    morph(old, new)
    assert torch.equal(new.blocks[0].weights.weight[:5], old.blocks[0].weights.weight)
    torch.testing.assert_close(new.output.weight, old.output.weight)


def test_repeated_units_part_in_training():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)
    options = {"random_state": 0, "epochs": 5}
    small = ConvNetClassifier((Dense(3),), **options).fit(X, y)
    large = ConvNetClassifier((Dense(6), Dense(6)), **options).fit(X, y, initial=small)
    weight = large.module_.blocks[0].weights.weight.detach()
    assert len(torch.unique(weight.round(decimals=5), dim=0)) == 6
    assert large.morphism_.preserved


def test_a_classifier_starts_from_another():
    rng = np.random.default_rng(0)
    X, y = rng.random((80, 6, 6)), np.arange(80) % 3
    options = {"random_state": 0, "epochs": 2, "validation": 0.2}
    small = ConvNetClassifier((Conv(4, **SAME),), **options).fit(X, y)
    layers = (Conv(6, **SAME), Conv(6, **SAME))
    still = {**options, "learning_rate": 0.0, "random_state": 3}
    large = ConvNetClassifier(layers, **still).fit(X, y, initial=small)
    assert large.morphism_.preserved
    np.testing.assert_allclose(large.predict_proba(X), small.predict_proba(X), atol=1e-5)
    assert ConvNetClassifier(layers, **still).fit(X, y).morphism_ is None
    others = ConvNetClassifier(layers, **still).fit(X, y + 1, initial=small)
    assert others.morphism_.notes == ("the classes differ",)
    raw = ConvNetClassifier(layers, standardize=False, **still).fit(X, y, initial=small)
    assert raw.morphism_.notes == ("standardize differs",)
    with pytest.raises(OptionError, match=r"shape \(6, 6, 1\), not \(6, 5, 1\)"):
        ConvNetClassifier(layers, **still).fit(X[:, :, :5], y, initial=small)
    own = ConvNetClassifier(module=torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(36, 3)))
    with pytest.raises(OptionError, match="your own module"):
        own.fit(X, y, initial=small)
