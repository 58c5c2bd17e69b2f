"""Monte-Carlo dropout: passes are the network without some units."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from rankwise.history.task import Task
from rankwise.surrogates import MonteCarloDropout

X = np.random.default_rng(0).random((10, 2))
TASK = Task.of(X, X.sum(axis=1))


def test_masks_keep_the_expectation():
    masks = MonteCarloDropout(layers=3, width=40, dropout=0.3)._masks(
        torch.Generator().manual_seed(0), (500,)
    )
    assert {name: tuple(mask.shape) for name, mask in masks.items()} == {
        "w1": (500, 40, 1),
        "w2": (500, 40, 1),
        "out": (500, 1, 40),
    }
    for mask in masks.values():
        assert float((mask == 0).double().mean()) == pytest.approx(0.3, abs=0.02)
        assert float(mask.mean()) == pytest.approx(1.0, abs=0.02)


def test_the_variance_is_that_of_the_passes_after_bessel():
    fitted = MonteCarloDropout(epochs=50, passes=6).fit(TASK)
    values = fitted._networks.outputs(X)[:, 0] * fitted._transform.scale
    posterior = fitted.predict(X, joint=True)
    np.testing.assert_allclose(posterior.std, values.std(axis=0, ddof=1))
    np.testing.assert_allclose(posterior.covariance, np.cov(values, rowvar=False))


def test_passes_differ_by_their_units_alone():
    fitted = MonteCarloDropout(epochs=50, passes=6, layers=2).fit(TASK)
    parts = fitted._networks.architecture.views(fitted._networks.weights)
    assert (parts["x"] == parts["x"][0]).all() and (parts["b1"] == parts["b1"][0]).all()
    for name, axis in (("w1", 2), ("out", 1)):
        gone = (parts[name] == 0).all(axis)
        kept = torch.where(parts[name] == 0, torch.nan, parts[name])
        assert gone.any() and (gone != gone[0]).any()
        same = (kept == kept[0]) | kept.isnan() | kept[0].isnan()
        assert same.all()


def test_next_to_no_dropout_is_a_network_that_learns():
    fitted = MonteCarloDropout(dropout=1e-9, decay=0.0).fit(TASK)
    posterior = fitted.predict(X)
    assert posterior.mean == pytest.approx(TASK.losses, abs=0.02)
    assert posterior.std == pytest.approx(np.zeros(10), abs=1e-6)


def test_the_gradient_is_that_of_the_mean_over_thinned_networks():
    """One step of Adam goes against the sign of the gradient, here by autograd."""
    options = {"layers": 2, "width": 6, "draws": 3, "epochs": 1, "rate": 1e-3, "passes": 2}
    fitted = MonteCarloDropout(**options, decay=0.01, dropout=0.4)
    shape, generator = fitted._shape(2, 1), torch.Generator().manual_seed(0)
    start = shape.initial(generator)
    masks = fitted._masks(generator, (50, 3))
    flat = start.clone().requires_grad_()
    w = shape.views(flat)
    y = (TASK.losses - TASK.losses.mean()) / TASK.losses.std()
    loss = 0.01 * flat.square().sum()
    for k in range(3):
        a = torch.relu(torch.as_tensor(2 * X - 1, dtype=torch.float32) @ w["x"][0] + w["b0"][0])
        a = torch.relu(a @ (w["w1"][0] * masks["w1"][0, k]) + w["b1"][0])
        out = a @ (w["out"][0] * masks["out"][0, k]).T + w["b_out"][0]
        loss = loss + (out[:, 0] - torch.as_tensor(y, dtype=torch.float32)).square().mean() / 3
    loss.backward()
    parts = shape.views(start - 1e-3 * flat.grad.sign())
    thinned = fitted.fit(TASK)._networks
    found = thinned.architecture.views(thinned.weights)
    passes = fitted._masks(generator, (2,))  # the next that are drawn
    for name, part in parts.items():
        expected = part * passes[name] if name in passes else part.expand_as(found[name])
        torch.testing.assert_close(found[name], expected, atol=1e-5, rtol=0.0)
