"""Fine-tuning against plain autograd, and when it ends."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from support import plain

from rankwise._core.threads import one_thread
from rankwise.surrogates.numeric.batched_networks import Architecture, cosine
from rankwise.surrogates.ranking.fine_tuning import (
    Observations,
    Tuning,
    _EarlyStopping,
    _subsets,
    fine_tune,
    scaled_ranks,
    targets,
)
from rankwise.surrogates.ranking.losses import ListMLE, make_loss

SHAPE = Architecture(columns=3, members=4, layers=2, width=6, context=5)
BLIND = Architecture(columns=3, members=4, layers=2, width=6, context=0)
WIDE = Architecture(columns=3, members=4, layers=2, width=16, context=5)
LISTMLE, MSE = make_loss("listmle", limit=10.0), make_loss("mse")


@pytest.fixture(scope="module", autouse=True)
def _small_matrices():
    with one_thread():
        yield


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def initial(shape: Architecture, dtype=torch.float64) -> torch.Tensor:
    return shape.initial(seeded(1), dtype)


def observed(n: int, loss=LISTMLE, dtype=torch.float64, losses=None) -> Observations:
    rng = np.random.default_rng(n)
    X = rng.random((n, 3))
    return Observations.of(X, rng.random(n) if losses is None else losses, loss, dtype)


def epochs_of(n: int, tuning: Tuning, shape: Architecture = SHAPE, seed: int = 0):
    """For every epoch which observations are ranked and which are shown (M, n)."""
    drawn = list(_subsets(shape, observed(n), LISTMLE, tuning, seeded(seed)))
    query = torch.stack([lists.mask for lists, _ in drawn]).numpy()
    pool = torch.cat([pool for _, pool in drawn]).numpy()
    return query.astype(bool), pool


# ---------------------------------------------------------------------- observations


@pytest.mark.parametrize("name", ["listmle", "ranknet", "pointwise"])
def test_targets_keep_apart_what_single_precision_would_merge(name):
    losses = np.array([1.0 + 2e-12, 1.0, 1.0 + 1e-12, 1e30, 1.0])
    assert len(np.unique(losses.astype(np.float32))) == 2
    told = targets(losses, make_loss(name)).astype(np.float32)
    assert told.tolist() == [2, 0, 1, 3, 0]


@pytest.mark.parametrize("name", ["listnet", "mse"])
@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e300])
def test_targets_of_losses_that_look_at_values_are_standardised(name, scale):
    losses = np.array([3.0, -1.0, 2.0, 5.0])
    told = targets(losses * scale, make_loss(name))
    assert np.mean(told) == pytest.approx(0.0, abs=1e-12)
    assert np.std(told) == pytest.approx(1.0)
    assert told == pytest.approx((losses - losses.mean()) / losses.std())


@pytest.mark.parametrize("loss", [LISTMLE, MSE], ids=["ranks", "values"])
def test_targets_of_nothing_and_of_equal_losses(loss):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(targets(np.array([]), loss)) == 0
    assert (targets(np.full(4, 7.0), loss) == 0).all()
    assert (targets(np.zeros(3), loss) == 0).all()


def test_scaled_ranks_lie_within_one_and_share_ties():
    assert scaled_ranks(np.array([])).shape == (0,)
    assert scaled_ranks(np.array([5.0])).tolist() == [0.0]
    assert scaled_ranks(np.array([2.0, 1.0])).tolist() == [0.5, -0.5]
    assert scaled_ranks(np.array([1.0, 1.0, 9.0, 1.0])).tolist() == [-0.25, -0.25, 0.75, -0.25]
    ranks = scaled_ranks(np.random.default_rng(0).random((3, 100)))
    assert np.abs(ranks).max() < 1 and ranks.sum(axis=1) == pytest.approx(0.0)


def test_observations_are_sorted_and_show_their_ranks_to_the_deep_set():
    X = np.arange(12.0).reshape(4, 3)
    seen = Observations.of(X, np.array([3.0, 1.0, 7.0, 1.0]), LISTMLE, torch.float64)
    assert seen.X.tolist() == X[[1, 3, 0, 2]].tolist()
    assert seen.y.tolist() == [0, 0, 1, 2]
    assert seen.items[:, :3].equal(seen.X)
    assert seen.items[:, 3].tolist() == [-0.5, -0.5, 0.25, 0.75]
    assert len(seen) == 4


# ---------------------------------------------------------------------- who sees what


@pytest.mark.parametrize(
    ("n", "support", "size"), [(5, 0.2, 1), (9, 0.2, 1), (10, 0.2, 2), (23, 0.5, 11), (2, 0.5, 1)]
)
def test_a_part_is_shown_and_all_the_rest_is_ranked(n, support, size):
    query, pool = epochs_of(n, Tuning(60, 0.1, support))
    assert query.shape == pool.shape == (60, 4, n)
    assert (query.sum(-1) == n - size).all()
    assert np.array_equal(pool > 0, ~query)
    assert pool[pool > 0] == pytest.approx(1 / size)
    assert pool.sum(-1) == pytest.approx(1.0)


def test_subsets_differ_between_scorers_and_epochs_and_are_fair():
    query, _ = epochs_of(10, Tuning(500, 0.1, 0.2))
    assert query.mean(axis=(0, 1)) == pytest.approx(0.8, abs=0.04)
    patterns = query.reshape(-1, 10)
    assert len(np.unique(patterns, axis=0)) == 45  # all pairs are shown at some time
    assert not (query[:, 0] == query[:, 1]).all(axis=-1).all()


def test_subsets_depend_on_the_generator_alone():
    tuning = Tuning(70, 0.1, 0.2)
    first, again, other = (epochs_of(12, tuning, seed=s)[0] for s in (3, 3, 4))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_fewer_than_five_observations_are_all_ranked_and_none_is_shown(n):
    query, pool = epochs_of(n, Tuning(7, 0.1, 0.2))
    assert query.shape == (7, 4, n) and query.all()
    assert (pool == 0).all()


@pytest.mark.parametrize("n", [2, 4, 5, 30])
def test_without_a_support_all_observations_are_ranked_and_shown(n):
    query, pool = epochs_of(n, Tuning(3, 0.1, 0.0))
    assert query.all()
    assert pool == pytest.approx(1 / n)


def test_without_a_deep_set_all_observations_are_ranked():
    query, pool = epochs_of(20, Tuning(3, 0.1, 0.2), BLIND)
    assert query.all() and (pool == 0).all()


@pytest.mark.parametrize("epochs", [1, 49, 50, 51, 120])
@pytest.mark.parametrize("support", [0.0, 0.2])
def test_there_is_a_subset_for_every_epoch(epochs, support):
    assert len(epochs_of(6, Tuning(epochs, 0.1, support))[0]) == epochs


# ---------------------------------------------------------------------- learning


def tuned_plainly(shape, start, seen: Observations, loss, tuning: Tuning) -> torch.Tensor:
    """Fine-tuning list by list with autograd and torch's own Adam."""
    weights = plain.leaves(shape, start)
    adam = torch.optim.Adam(list(weights.values()), lr=tuning.rate)
    drawn = _subsets(shape, seen, loss, tuning, seeded())
    for epoch, (lists, pool) in enumerate(drawn):
        total = torch.zeros((), dtype=torch.float64)
        for m in range(shape.members):
            ranked, shown = lists.mask[m] > 0, pool[0, m] > 0
            z = plain.context(weights, seen.items[shown])
            value = loss(plain.scores(weights, m, seen.X[ranked], z), seen.y[ranked])
            total = total + value / loss.prepare(seen.y[ranked]).total
        adam.param_groups[0]["lr"] = cosine(tuning.rate, epoch, tuning.epochs)
        adam.zero_grad()
        total.backward()
        for w in weights.values():
            w.grad = torch.zeros_like(w) if w.grad is None else w.grad
        adam.step()
    return plain.flat(weights)


def scores_of(shape: Architecture, weights, seen: Observations) -> torch.Tensor:
    """Scores (M, n) of the observations by scorers that see them all."""
    views = shape.views(weights)
    z = plain.context(views, seen.items)
    return torch.stack([plain.scores(views, m, seen.X, z) for m in range(shape.members)])


@pytest.mark.parametrize(
    ("shape", "n", "support", "loss"),
    [
        pytest.param(SHAPE, 12, 0.2, LISTMLE, id="support"),
        pytest.param(SHAPE, 12, 0.0, LISTMLE, id="all-shown"),
        pytest.param(SHAPE, 3, 0.2, LISTMLE, id="few"),
        pytest.param(BLIND, 12, 0.2, LISTMLE, id="no-deep-set"),
        pytest.param(SHAPE, 12, 0.2, ListMLE("none"), id="unlimited"),
        pytest.param(SHAPE, 12, 0.2, make_loss("listnet", limit=10.0), id="listnet"),
        pytest.param(SHAPE, 12, 0.2, make_loss("ranknet", limit=10.0), id="ranknet"),
        pytest.param(SHAPE, 12, 0.2, make_loss("pointwise"), id="pointwise"),
        pytest.param(SHAPE, 12, 0.2, MSE, id="mse"),
    ],
)
def test_fine_tuning_is_that_of_autograd_and_torchs_adam(shape, n, support, loss):
    seen, start, tuning = observed(n, loss), initial(shape), Tuning(10, 0.02, support)
    found, epochs = fine_tune(shape, start, seen, loss, tuning, seeded())
    expected = tuned_plainly(shape, start, seen, loss, tuning)
    assert epochs == 10 and found.dtype == torch.float64
    assert (found - start).abs().max() > 0.05
    torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("loss", [LISTMLE, make_loss("ranknet")], ids=["listmle", "ranknet"])
def test_ties_are_tuned_as_by_autograd(loss):
    losses = np.array([0.3, 0.1, 0.3, 0.3, 0.2, 0.1, 0.9, 0.5])
    seen, tuning = observed(8, loss, losses=losses), Tuning(10, 0.02, 0.25)
    found, _ = fine_tune(SHAPE, initial(SHAPE), seen, loss, tuning, seeded())
    expected = tuned_plainly(SHAPE, initial(SHAPE), seen, loss, tuning)
    torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-8)


def test_the_start_is_left_as_it_is():
    start = initial(SHAPE, torch.float32)
    before = start.clone()
    weights, _ = fine_tune(
        SHAPE, start, observed(8, dtype=torch.float32), LISTMLE, Tuning(5, 0.1), seeded()
    )
    assert torch.equal(start, before)
    assert weights.data_ptr() != start.data_ptr() and not torch.equal(weights, start)
    assert not weights.is_inference()


@pytest.mark.parametrize("epochs", [1, 2, 50, 53])
def test_epochs_are_honoured(epochs):
    _, done = fine_tune(
        SHAPE, initial(SHAPE), observed(9), LISTMLE, Tuning(epochs, 0.01), seeded()
    )
    assert done == epochs


def test_learning_brings_all_scorers_into_order():
    seen, tuning, loss = observed(10), Tuning(400, 0.02, support=0.0), make_loss("listmle")
    weights, _ = fine_tune(WIDE, initial(WIDE), seen, loss, tuning, seeded())
    scores = scores_of(WIDE, weights, seen)
    assert (scores[:, :-1] > scores[:, 1:]).all()


# ---------------------------------------------------------------------- when to stop

RIGHT = torch.tensor([[4.0, 3.0, 2.0, 1.0], [9.0, 8.0, 7.0, -1.0]])
Y = torch.arange(4.0)


def stops(y, batches, patience=1, top=5) -> list[bool]:
    learnt = _EarlyStopping(
        torch.as_tensor(y, dtype=torch.float64), Tuning(9, 0.1, 0.2, patience, top)
    )
    return [learnt(torch.as_tensor(scores)) for scores in batches]


def test_it_is_learnt_when_the_order_was_right_for_a_while():
    wrong = RIGHT.flip(1)
    assert stops(Y, [RIGHT] * 3, patience=3) == [False, False, True]
    sequence = [RIGHT, RIGHT, wrong, RIGHT, RIGHT, RIGHT]
    assert stops(Y, sequence, patience=3) == [False] * 5 + [True]
    assert stops(Y, [wrong] * 9) == [False] * 9


def test_without_patience_it_is_never_learnt():
    assert stops(Y, [RIGHT] * 5, patience=0) == [False] * 5


def test_one_scorer_that_is_wrong_is_enough_to_go_on():
    scores = RIGHT.clone()
    scores[1, 2] = 8.5
    assert stops(Y, [scores]) == [False]


def test_only_the_best_observations_must_be_in_order():
    scores = RIGHT[:, [0, 1, 3, 2]]  # the two worst are exchanged
    assert stops(Y, [scores], top=2) == [True]
    assert stops(Y, [scores], top=3) == [False]
    below = RIGHT[:, [0, 3, 2, 1]]  # the second best is below the others
    assert stops(Y, [below], top=2) == [False]


def test_tied_observations_may_have_any_order_but_different_ones_no_equal_scores():
    y = [0.0, 0.0, 1.0, 2.0]
    assert stops(y, [RIGHT[:, [1, 0, 2, 3]]]) == [True]
    assert stops(y, [torch.tensor([[2.0, 2.0, 1.0, 0.0]])]) == [True]
    assert stops(y, [torch.tensor([[2.0, 2.0, 2.0, 0.0]])]) == [False]


def test_fine_tuning_ends_when_it_has_learnt_and_not_before():
    seen, ends = observed(10), {}
    for patience in (0, 1, 10, 1000):
        tuning = Tuning(400, 0.02, 0.0, patience)
        weights, ends[patience] = fine_tune(WIDE, initial(WIDE), seen, LISTMLE, tuning, seeded())
        if patience == 10:
            scores = scores_of(WIDE, weights, seen)
            assert (scores[:, :4] > scores[:, 1:5]).all()
            assert (scores[:, [4]] > scores[:, 5:]).all()
    assert ends[0] == ends[1000] == 400
    assert 1 < ends[1] < ends[10] < 400 and ends[10] >= ends[1] + 9


def test_what_cannot_be_learnt_is_tried_to_the_end():
    """The same configuration with two losses has one score."""
    X, y = np.full((6, 3), 0.5), np.arange(6.0)
    seen = Observations.of(X, y, LISTMLE, torch.float64)
    tuning = Tuning(60, 0.02, 0.0, patience=1)
    assert fine_tune(SHAPE, initial(SHAPE), seen, LISTMLE, tuning, seeded())[1] == 60
