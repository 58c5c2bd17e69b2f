"""The batched networks and their backward pass against autograd, one list at a time."""

from __future__ import annotations

import math

import pytest
import torch

from rankwise._core.threads import one_thread
from rankwise.surrogates.numeric.batched_networks import (
    Adam,
    Architecture,
    Buffers,
    DeepSet,
    Scorers,
    cosine,
    outputs_of,
)
from rankwise.surrogates.ranking.losses import ListMLE

SMALL = Architecture(columns=3, members=4, layers=3, width=6, context=5)
ARCHITECTURES = [
    SMALL,
    Architecture(columns=3, members=2, layers=1, width=6, context=5),
    Architecture(columns=3, members=3, layers=2, width=6, context=0),
    Architecture(columns=1, members=2, layers=4, width=5, context=2),
    Architecture(columns=2, members=1, layers=1, width=4, context=0),
]
every_architecture = pytest.mark.parametrize("shape", ARCHITECTURES, ids=str)


@pytest.fixture(scope="module", autouse=True)
def _small_matrices():
    with one_thread():
        yield


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def initial(shape: Architecture, dtype=torch.float64, seed: int = 0) -> torch.Tensor:
    return shape.initial(torch.Generator().manual_seed(seed), dtype)


def scorers_of(shape: Architecture, flat, gradient, lists: int, n: int) -> Scorers:
    """All members of the ensemble with buffers of their own."""
    buffers = Buffers(shape, shape.members, lists, n, flat.dtype)
    return Scorers(shape.views(flat), shape.views(gradient), slice(None), buffers)


def score_of_one(w, m: int, x: torch.Tensor, z: torch.Tensor | None) -> torch.Tensor:
    """The score of one item (d,) by one member, in plain torch."""
    a = x @ w["x"][m] + w["b0"][m, 0]
    if z is not None:
        a = a + z @ w["z"][m]
    a = torch.relu(a)
    k = 1
    while f"w{k}" in w:
        a = torch.relu(a @ w[f"w{k}"][m] + w[f"b{k}"][m, 0])
        k += 1
    return a @ w["out"][m, 0] + w["b_out"][m, 0, 0]


def score_by_hand(w, X: torch.Tensor, z: torch.Tensor | None) -> torch.Tensor:
    """Scores (M, L, n) of items (M, L, n, d), one at a time."""
    M, L, n, _ = X.shape
    return torch.stack(
        [
            torch.stack(
                [
                    torch.stack(
                        [
                            score_of_one(w, m, X[m, k, i], None if z is None else z[m, k])
                            for i in range(n)
                        ]
                    )
                    for k in range(L)
                ]
            )
            for m in range(M)
        ]
    )


def context_by_hand(w, items: torch.Tensor, pool: torch.Tensor) -> torch.Tensor:
    """The context (c,) of one set: items (u, d + 1) with weights (u,)."""
    pooled = torch.zeros(w["set2"].shape[0], dtype=items.dtype)
    for item, weight in zip(items, pool, strict=True):
        a = torch.relu(item @ w["set0"] + w["set_b0"])
        pooled = pooled + weight * torch.relu(a @ w["set1"] + w["set_b1"])
    a = torch.relu(pooled @ w["set2"] + w["set_b2"])
    a = torch.relu(a @ w["set3"] + w["set_b3"])
    return a @ w["set4"] + w["set_b4"]


def leaves(shape: Architecture, flat: torch.Tensor) -> dict[str, torch.Tensor]:
    return {n: v.clone().requires_grad_() for n, v in shape.views(flat).items()}


def assert_gradients_are(
    shape: Architecture, flat, leaf, scalar, tolerance=1e-10, part=""
) -> None:
    """Every weight's gradient in the vector is that of the scalar by the leaf of its name."""
    found = shape.views(flat)
    wanted = torch.autograd.grad(scalar, list(leaf.values()), materialize_grads=True)
    for name, expected in zip(leaf, wanted, strict=True):
        close = torch.allclose(found[name], expected, rtol=tolerance, atol=tolerance)
        assert close, f"{name}: off by {(found[name] - expected).abs().max():.2g}"


def case(shape: Architecture, lists: int, n: int):
    """Random items (M, L, n, d), contexts (M, L, c) and coefficients (M, L, n)."""
    M = shape.members
    X = normal(M, lists, n, shape.columns, seed=1)
    z = normal(M, lists, shape.context, seed=2) if shape.context else None
    return X, z, normal(M, lists, n, seed=3)


# ---------------------------------------------------------------------- scorers


@pytest.mark.parametrize(("lists", "n"), [(1, 4), (3, 4), (2, 1)])
@every_architecture
def test_scores_and_gradients_are_those_of_autograd(shape, lists, n):
    X, z, v = case(shape, lists, n)
    flat, gradient = initial(shape), torch.zeros(shape.size, dtype=torch.float64)
    scorers = scorers_of(shape, flat, gradient, lists, n)
    scores = scorers.forward(X.flatten(1, 2), z)
    dz = scorers.backward(v)

    leaf = leaves(shape, flat)
    z_leaf = None if z is None else z.clone().requires_grad_()
    expected = score_by_hand(leaf, X, z_leaf)
    assert scorers.shape == scores.shape == (shape.members, lists, n)
    torch.testing.assert_close(scores, expected.detach(), rtol=1e-12, atol=1e-12)
    total = (v * expected).sum()
    if z is None:
        assert dz is None
    else:
        wanted = torch.autograd.grad(total, z_leaf, retain_graph=True)[0]
        assert dz.shape == z.shape
        torch.testing.assert_close(dz, wanted, rtol=1e-10, atol=1e-10)
    assert_gradients_are(shape, gradient, leaf, total)


@pytest.mark.parametrize("outputs", [1, 2, 3])
def test_several_outputs_tanh_and_the_gradient_by_the_items(outputs):
    shape = Architecture(3, 2, 3, 5, context=0, outputs=outputs, tanh=True)
    flat, gradient = initial(shape), torch.zeros(shape.size, dtype=torch.float64)
    X, v = normal(2, 4, 3, seed=1), normal(2, outputs, 4, seed=2)
    scorers = scorers_of(shape, flat, gradient, 1, 4)
    found = scorers.forward(X, None).clone()
    scorers.backward(v)

    w, items = leaves(shape, flat), X.clone().requires_grad_()
    a = items
    for name in ("x", "w1", "w2"):
        a = torch.tanh(a @ w[name] + w["b" + (name[1:] or "0")])
    expected = (a @ w["out"].mT + w["b_out"].mT).mT
    torch.testing.assert_close(found, expected.detach())
    torch.testing.assert_close(scorers.features, a.detach())
    by_items = torch.autograd.grad((v * expected).sum(), items, retain_graph=True)[0]
    torch.testing.assert_close(scorers.by_inputs, by_items)
    assert_gradients_are(shape, gradient, w, (v * expected).sum())
    parts = shape.views(flat)
    many = normal(2345, 3, seed=3)
    together = outputs_of(shape, parts, many)
    assert together.shape == (2, outputs, 2345)
    torch.testing.assert_close(together[:, :, 2000:], outputs_of(shape, parts, many[2000:]))
    assert outputs_of(shape, parts, many[:0]).shape == (2, outputs, 0)


@every_architecture
def test_members_one_by_one_give_the_gradients_of_all_at_once(shape):
    X, z, v = case(shape, 3, 4)
    flat = initial(shape)
    together, apart = torch.zeros(2, shape.size, dtype=torch.float64)
    scorers = scorers_of(shape, flat, together, 3, 4)
    scores, dz = scorers.forward(X.flatten(1, 2), z), scorers.backward(v)
    weights, views = shape.views(flat), shape.views(apart)
    buffers = Buffers(shape, 1, 3, 4, torch.float64)
    for m in range(shape.members):
        one = slice(m, m + 1)
        scorer = Scorers(weights, views, one, buffers)
        alone = scorer.forward(X[one].flatten(1, 2), None if z is None else z[one])
        torch.testing.assert_close(alone, scores[one], rtol=1e-12, atol=1e-12)
        dz_alone = scorer.backward(v[one])
        if dz is not None:
            torch.testing.assert_close(dz_alone, dz[one], rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(apart, together, rtol=1e-12, atol=1e-12)
    assert together.abs().max() > 0


def test_a_part_of_the_members_leaves_the_others_alone():
    X, z, v = case(SMALL, 2, 3)
    gradient = torch.zeros(SMALL.size, dtype=torch.float64)
    part = slice(1, 3)
    views = SMALL.views(gradient)
    buffers = Buffers(SMALL, 2, 2, 3, torch.float64)
    scorers = Scorers(SMALL.views(initial(SMALL)), views, part, buffers)
    scorers.forward(X[part].flatten(1, 2), z[part])
    scorers.backward(v[part])
    for name, view in views.items():
        if name.startswith("set"):
            assert (view == 0).all()
        else:
            assert (view[[0, 3]] == 0).all(), name
            assert (view[part] != 0).any(), name


@pytest.mark.parametrize("context", [True, False])
def test_members_may_share_their_items_as_an_expanded_axis(context):
    shape = SMALL if context else ARCHITECTURES[2]
    X, z, v = case(shape, 3, 4)
    shared = X[:1].flatten(1, 2).expand(shape.members, -1, -1)
    expanded, copied = torch.zeros(2, shape.size, dtype=torch.float64)
    scores, contexts = [], []
    for gradient, items in ((expanded, shared), (copied, shared.contiguous())):
        scorers = scorers_of(shape, initial(shape), gradient, 3, 4)
        scores.append(scorers.forward(items, z))
        contexts.append(scorers.backward(v))
    torch.testing.assert_close(*scores, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(expanded, copied, rtol=1e-12, atol=1e-12)
    if context:
        torch.testing.assert_close(*contexts, rtol=1e-12, atol=1e-12)
    leaf = leaves(shape, initial(shape))
    expected = score_by_hand(leaf, X[:1].expand(shape.members, -1, -1, -1), z)
    assert_gradients_are(shape, expanded, leaf, (v * expected).sum())


def test_gradients_accumulate_until_they_are_cleared():
    X, z, v = case(SMALL, 2, 3)
    gradient = torch.zeros(SMALL.size, dtype=torch.float64)
    scorers = scorers_of(SMALL, initial(SMALL), gradient, 2, 3)
    scorers.forward(X.flatten(1, 2), z)
    scorers.backward(v)
    once = gradient.clone()
    scorers.backward(v)
    torch.testing.assert_close(gradient, 2 * once, rtol=1e-12, atol=1e-12)
    scorers.forward(-X.flatten(1, 2), z)
    scorers.backward(v)
    other = gradient - 2 * once
    gradient.zero_()
    scorers.backward(v)
    torch.testing.assert_close(gradient, other, rtol=1e-10, atol=1e-12)
    assert not torch.allclose(other, once)


def test_weights_are_read_where_they_are_stored():
    X, z, _ = case(SMALL, 2, 3)
    flat, gradient = initial(SMALL), torch.zeros(SMALL.size, dtype=torch.float64)
    scorers = scorers_of(SMALL, flat, gradient, 2, 3)
    flat.copy_(initial(SMALL, seed=5))
    scores = scorers.forward(X.flatten(1, 2), z)
    expected = score_by_hand(SMALL.views(flat), X, z)
    torch.testing.assert_close(scores, expected, rtol=1e-12, atol=1e-12)


# ---------------------------------------------------------------------- deep sets


def pooled_sets(groups: int, sets: int, items: int) -> torch.Tensor:
    """Pooling weights (G, q, u): means of some items of each set, and the first set is empty."""
    chosen = (normal(groups, sets, items, seed=7) < 0.5).double()
    chosen[..., 0] = 1.0
    chosen[0, 0] = 0.0
    return chosen / chosen.sum(-1, keepdim=True).clamp_min(1.0)


@pytest.mark.parametrize(("groups", "sets", "items"), [(1, 4, 6), (6, 1, 5), (2, 3, 4), (1, 1, 1)])
def test_contexts_and_gradients_of_sets_are_those_of_autograd(groups, sets, items):
    E, pool = normal(groups, items, SMALL.columns + 1), pooled_sets(groups, sets, items)
    flat, gradient = initial(SMALL), torch.zeros(SMALL.size, dtype=torch.float64)
    deep_set = DeepSet(SMALL.views(flat), SMALL.views(gradient))
    z = deep_set.forward(E, pool)
    v = normal(groups * sets, SMALL.context, seed=1)
    deep_set.backward(v)

    leaf = leaves(SMALL, flat)
    expected = torch.stack(
        [context_by_hand(leaf, E[g], pool[g, q]) for g in range(groups) for q in range(sets)]
    )
    torch.testing.assert_close(z, expected.detach(), rtol=1e-12, atol=1e-12)
    assert_gradients_are(SMALL, gradient, leaf, (v * expected).sum())


def test_the_empty_set_has_a_context_whatever_the_items():
    views = SMALL.views(initial(SMALL))
    deep_set = DeepSet(views, SMALL.views(torch.zeros(SMALL.size, dtype=torch.float64)))
    pool = torch.zeros(1, 2, 3, dtype=torch.float64)
    pool[0, 1] = 1 / 3
    a, b = (deep_set.forward(normal(1, 3, 4, seed=k), pool).clone() for k in range(2))
    torch.testing.assert_close(a[0], b[0], rtol=0, atol=0)
    assert not torch.allclose(a[1], b[1])
    nothing = context_by_hand(views, normal(1, 4), torch.zeros(1, dtype=torch.float64))
    torch.testing.assert_close(a[0], nothing, rtol=1e-12, atol=1e-12)


def test_gradients_of_sets_accumulate():
    E, pool, v = normal(2, 4, 4), pooled_sets(2, 3, 4), normal(6, SMALL.context, seed=1)
    gradient = torch.zeros(SMALL.size, dtype=torch.float64)
    deep_set = DeepSet(SMALL.views(initial(SMALL)), SMALL.views(gradient))
    deep_set.forward(E, pool)
    deep_set.backward(v)
    once = gradient.clone()
    assert once.abs().max() > 0
    deep_set.backward(v)
    torch.testing.assert_close(gradient, 2 * once, rtol=1e-12, atol=1e-12)


def test_the_order_of_the_items_of_a_set_does_not_matter():
    E, pool = normal(1, 5, 4), pooled_sets(1, 3, 5)
    deep_set = DeepSet(
        SMALL.views(initial(SMALL)), SMALL.views(torch.zeros(SMALL.size, dtype=torch.float64))
    )
    moved = [3, 0, 4, 1, 2]
    expected = deep_set.forward(E, pool).clone()
    torch.testing.assert_close(
        deep_set.forward(E[:, moved], pool[..., moved]), expected, rtol=1e-12, atol=1e-12
    )


# ---------------------------------------------------------------------- both together

LISTS, ITEMS, SUPPORT = 3, 5, 4
LOSS = ListMLE("inverse-log", limit=4.0)


def pipeline(shape, flat, shared: bool, by_member: bool = False):
    """Gradient of the whole network, context included, with ListMLE on the scores."""
    M, dtype = shape.members, flat.dtype
    gradient = torch.zeros_like(flat)
    weights, views = shape.views(flat), shape.views(gradient)
    X, E, pool, y = (t.to(dtype) for t in pipeline_data(shape, shared))
    lists = LOSS.prepare_sorted(y, torch.ones_like(y, dtype=torch.bool))
    deep_set = DeepSet(weights, views)
    z = deep_set.forward(E, pool)
    z = z.view(M, 1, -1).expand(-1, LISTS, -1) if shared else z.view(M, LISTS, -1)
    parts = [slice(m, m + 1) for m in range(M)] if by_member else [slice(None)]
    buffers = Buffers(shape, M // len(parts), LISTS, ITEMS, dtype)
    dz, scores = [], []
    for part in parts:
        scorers = Scorers(weights, views, part, buffers)
        scores.append(scorers.forward(X[part].flatten(1, 2), z[part]).clone())
        dz.append(scorers.backward(LOSS.gradient(scores[-1], lists)))
    dz = torch.cat(dz)
    deep_set.backward(dz.sum(1) if shared else dz.flatten(0, 1))
    return torch.cat(scores), gradient


def pipeline_data(shape, shared: bool):
    """Items, evaluations and pooling weights: one group of M sets, or a set for every list."""
    M, d = shape.members, shape.columns
    groups, sets = (1, M) if shared else (M * LISTS, 1)
    E = normal(groups, SUPPORT, d + 1, seed=5)
    y = torch.arange(ITEMS, dtype=torch.float64)
    return normal(M, LISTS, ITEMS, d, seed=1), E, pooled_sets(groups, sets, SUPPORT), y


@pytest.mark.parametrize("by_member", [False, True])
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("layers", [1, 2, 4])
def test_the_whole_network_learns_what_autograd_would(layers, shared, by_member):
    shape = Architecture(columns=3, members=3, layers=layers, width=6, context=4)
    flat = initial(shape)
    scores, gradient = pipeline(shape, flat, shared, by_member)

    leaf = leaves(shape, flat)
    X, E, pool, y = pipeline_data(shape, shared)
    if shared:
        rows = [context_by_hand(leaf, E[0], pool[0, m]) for m in range(3) for _ in range(LISTS)]
    else:
        rows = [context_by_hand(leaf, E[g], pool[g, 0]) for g in range(3 * LISTS)]
    expected = score_by_hand(leaf, X, torch.stack(rows).view(3, LISTS, -1))
    torch.testing.assert_close(scores, expected.detach(), rtol=1e-12, atol=1e-12)
    assert_gradients_are(shape, gradient, leaf, LOSS(expected, y).sum())


@pytest.mark.parametrize("shared", [False, True])
def test_single_precision_agrees_with_double(shared):
    shape = Architecture(columns=3, members=3, layers=4, width=32, context=16)
    exact = pipeline(shape, initial(shape), shared)
    single = pipeline(shape, initial(shape, torch.float32), shared)
    for rounded, wanted in zip(single, exact, strict=True):
        assert rounded.dtype == torch.float32
        torch.testing.assert_close(rounded.double(), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("by_member", [False, True])
def test_inference_mode_changes_nothing(by_member, shared):
    flat = initial(SMALL)
    expected = pipeline(SMALL, flat, shared, by_member)
    with torch.inference_mode():
        found = pipeline(SMALL, flat, shared, by_member)
    for a, b in zip(found, expected, strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("context", [5, 0])
def test_buffers_from_outside_work_within_inference_mode(context):
    shape = Architecture(columns=3, members=2, layers=3, width=6, context=context)
    X, z, v = case(shape, 2, 3)
    flat, gradient = initial(shape), torch.zeros(shape.size, dtype=torch.float64)
    scorers = scorers_of(shape, flat, gradient, 2, 3)
    adam = Adam(flat, gradient)
    scorers.forward(X.flatten(1, 2), z)
    scorers.backward(v)
    expected, before = gradient.clone(), flat.clone()
    gradient.zero_()
    with torch.inference_mode():
        scorers.forward(X.flatten(1, 2), z)
        scorers.backward(v)
        adam.step(1e-3)
    assert torch.equal(gradient, expected)
    moved = expected != 0
    assert (flat[~moved] == before[~moved]).all()
    assert (flat - before).abs()[moved].max() == pytest.approx(1e-3, rel=1e-3)


def test_training_brings_scores_into_the_right_order():
    shape = Architecture(columns=2, members=3, layers=2, width=8, context=0)
    X = normal(1, 20, 2).expand(3, -1, -1)
    y = X[0].square().sum(-1)
    flat, gradient = initial(shape), torch.zeros(shape.size, dtype=torch.float64)
    scorers = scorers_of(shape, flat, gradient, 1, 20)
    adam, lists = Adam(flat, gradient), LOSS.prepare(y)
    with torch.inference_mode():
        for step in range(200):
            scores = scorers.forward(X[:, lists.order], None)
            if step == 0:
                before = LOSS.value(scores, lists)
            gradient.zero_()
            scorers.backward(LOSS.gradient(scores, lists))
            adam.step(cosine(0.02, step, 200))
        scores = scorers.forward(X[:, lists.order], None)
    assert (LOSS.value(scores, lists) < 0.8 * before).all()
    assert (scores.argmax(-1) < 3).all()


# ---------------------------------------------------------------------- optimizer


def test_adam_is_that_of_torch():
    start = normal(30)
    ours, gradient = start.clone(), torch.zeros(30, dtype=torch.float64)
    theirs = start.clone().requires_grad_()
    adam, reference = Adam(ours, gradient), torch.optim.Adam([theirs], lr=1.0)
    for step in range(20):
        rate = 0.1 / (1 + step % 5)
        g = normal(30, seed=100 + step) * 10.0 ** (step % 7 - 5)
        g[step] = 0.0
        g[-1] = 0.0
        gradient.copy_(g)
        theirs.grad = g.clone()
        reference.param_groups[0]["lr"] = rate
        adam.step(rate)
        reference.step()
        torch.testing.assert_close(ours, theirs.detach(), rtol=1e-12, atol=1e-12)
        assert torch.equal(gradient, g)
    assert ours[-1] == start[-1]
    assert adam.steps == 20


def test_cosine_is_the_schedule_of_torch():
    weight = torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=17)
    for step in range(18):
        assert cosine(0.3, step, 17) == pytest.approx(schedule.get_last_lr()[0], abs=1e-12)
        optimizer.step()
        schedule.step()
    assert cosine(0.3, 0, 17) == 0.3
    assert cosine(0.3, 17, 17) == pytest.approx(0.0, abs=1e-16)


# ---------------------------------------------------------------------- architecture


@every_architecture
def test_views_cover_the_vector_exactly_once(shape):
    flat = torch.zeros(shape.size)
    views = shape.views(flat)
    assert list(views) == list(shape.shapes)
    for name, view in views.items():
        assert view.shape == shape.shapes[name]
        view += 1.0
    assert (flat == 1.0).all()
    assert ("z" in views) == ("set0" in views) == (shape.context > 0)
    assert sum(name[0] == "w" for name in views) == shape.layers - 1


def fan_in(shape: Architecture, name: str) -> int:
    if name in ("x", "z", "b0"):
        return shape.columns + shape.context
    return shape.columns + 1 if name in ("set0", "set_b0") else shape.width


@every_architecture
def test_initial_weights_are_reproducible_and_within_their_bounds(shape):
    flat = initial(shape)
    assert flat.shape == (shape.size,) and flat.dtype == torch.float64
    assert torch.equal(flat, initial(shape))
    assert not torch.equal(flat, initial(shape, seed=1))
    single = initial(shape, torch.float32)
    assert single.dtype == torch.float32
    torch.testing.assert_close(single.double(), flat, rtol=1e-6, atol=1e-8)
    for name, view in shape.views(flat).items():
        bound = 1 / math.sqrt(fan_in(shape, name))
        assert view.abs().max() <= bound, name


def test_initial_weights_fill_their_bounds_and_differ_between_members():
    shape = Architecture(columns=7)
    for name, view in shape.views(initial(shape)).items():
        if view.numel() > 200:
            bound = 1 / math.sqrt(fan_in(shape, name))
            assert view.abs().max() > 0.95 * bound, name
            assert view.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.15), name
        if not name.startswith("set"):
            assert not torch.equal(view[0], view[1]), name
