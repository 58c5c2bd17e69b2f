"""Ranking losses against their definitions, written out item by item, and against autograd."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.distributions import Normal

from rankwise._core.threads import one_thread
from rankwise.errors import OptionError, UnknownNameError
from rankwise.surrogates.ranking import losses
from rankwise.surrogates.ranking.losses import (
    LOSSES,
    WEIGHTINGS,
    ListMLE,
    ListNet,
    MeanSquaredError,
    NeuralSort,
    Pointwise,
    RankingLoss,
    RankNet,
    gaussian_nll,
    make_loss,
    range_control,
)

KINDS = [
    *(f"listmle {w}" for w in WEIGHTINGS),
    "listnet",
    "neuralsort",
    "ranknet",
    "pointwise",
    "mse",
]
PROBABILISTIC = [k for k in KINDS if k not in ("pointwise", "mse")]
ORDINAL = [k for k in KINDS if k not in ("listnet", "mse")]
LIMITS = [None, 4.0, 31.0]  # none, one for the fast path of ListMLE, one beyond it
DTYPES = [torch.float32, torch.float64]

every_kind = pytest.mark.parametrize("kind", KINDS)
every_limit = pytest.mark.parametrize("limit", LIMITS)
every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=["float32", "float64"])


@pytest.fixture(scope="module", autouse=True)
def _small_matrices():
    with one_thread():
        yield


def build(kind: str, **options) -> RankingLoss:
    name, _, weighting = kind.partition(" ")
    return ListMLE(weighting, **options) if weighting else LOSSES[name](**options)


def f64(values) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def normal(*shape: int, seed: int = 0, scale: float = 1.0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return scale * torch.randn(shape, generator=generator, dtype=torch.float64)


def same(a, b, tolerance: float = 1e-10) -> None:
    torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


def by_autograd(loss, scores, y, mask=None):
    """Loss and gradient of lists as given, by autograd."""
    scores = scores.detach().clone().requires_grad_()
    value = loss(scores, y, mask)
    return value.detach(), torch.autograd.grad(value.sum(), scores)[0]


def by_hand(loss, scores, y, mask=None):
    """The gradient in closed form, put back into the order of the lists as given."""
    lists = loss.prepare(y, mask)
    order = lists.order.expand(scores.shape)
    gradient = loss.gradient(scores.gather(-1, order), lists)
    return torch.zeros_like(scores).scatter(-1, order, gradient)


def weights_by_formula(weighting: str, n: int) -> list[float]:
    positions = range(1, n + 1)
    doubled = sum(2 ** (n - t) - 1 for t in positions)
    return {
        "none": [1.0 for _ in positions],
        "inverse-log": [1 / math.log(i + 1) for i in positions],
        "inverse-linear": [1 / i for i in positions],
        "attention": [(n - i + 1) / sum(positions) for i in positions],
        "position-aware": [(2 ** (n - i) - 1) / doubled if doubled else 0.0 for i in positions],
    }[weighting]


@st.composite
def tied_lists(draw, max_size: int = 7):
    """Losses y with ties and scores of one list."""
    n = draw(st.integers(1, max_size))
    y = draw(st.lists(st.integers(0, 4), min_size=n, max_size=n))
    scores = draw(st.lists(st.floats(-5, 5), min_size=n, max_size=n))
    return f64([float(v) for v in y]), f64(scores)


# ---------------------------------------------------------------------- ListMLE, by definition


def plackett_luce(scores: list[float], order: tuple[int, ...]) -> float:
    probability, left = 1.0, list(order)
    while left:
        probability *= math.exp(scores[left[0]]) / sum(math.exp(scores[j]) for j in left)
        left.pop(0)
    return probability


def test_listmle_is_minus_the_log_of_the_probability_of_the_order():
    scores = normal(4)
    total = 0.0
    for order in itertools.permutations(range(4)):
        y = torch.empty(4, dtype=torch.float64)
        y[list(order)] = torch.arange(4.0, dtype=torch.float64)
        loss = ListMLE("none")(scores, y)
        assert loss.item() == pytest.approx(-math.log(plackett_luce(scores.tolist(), order)))
        total += math.exp(-loss.item())
    assert total == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("n", [1, 2, 3, 8, 60])
@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_listmle_is_its_definition_for_every_weighting(weighting, n):
    y, scores = normal(n), normal(n, seed=1, scale=2.0)
    s, w = scores[torch.argsort(y)].tolist(), weights_by_formula(weighting, n)
    expected = -sum(
        w[i] * (s[i] - math.log(sum(math.exp(s[j]) for j in range(i, n)))) for i in range(n)
    )
    loss = ListMLE(weighting)
    assert loss(scores, y).item() == pytest.approx(expected, rel=1e-12, abs=1e-12)
    lists = loss.prepare(y)
    assert lists.target.tolist() == pytest.approx(w, rel=1e-12, abs=1e-15)
    assert lists.total.item() == pytest.approx(sum(w), rel=1e-12, abs=1e-300)


@every_dtype
@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_weights_of_long_lists_are_finite_and_fall(weighting, dtype):
    target = ListMLE(weighting).prepare(torch.arange(3000, dtype=dtype)).target
    assert target.isfinite().all() and (target >= 0).all()
    assert (target.diff() <= 0).all()
    if weighting in ("attention", "position-aware"):
        assert target.sum().item() == pytest.approx(1.0, abs=1e-4)


def test_tied_items_are_compared_with_their_group_and_all_behind():
    """Breslow's rule: two best ones, tied, one in the middle, two worst ones, tied."""
    y, s = f64([3.0, 1.0, 2.0, 1.0, 3.0]), [0.3, -1.2, 0.8, 2.0, -0.4]
    w = weights_by_formula("inverse-log", 5)
    everyone = math.log(sum(math.exp(v) for v in s))
    middle = math.log(math.exp(s[2]) + math.exp(s[0]) + math.exp(s[4]))
    worst = math.log(math.exp(s[0]) + math.exp(s[4]))
    expected = (
        (w[0] + w[1]) / 2 * (2 * everyone - s[1] - s[3])
        + w[2] * (middle - s[2])
        + (w[3] + w[4]) / 2 * (2 * worst - s[0] - s[4])
    )
    assert ListMLE("inverse-log")(f64(s), y).item() == pytest.approx(expected, rel=1e-12)


# ---------------------------------------------------------------------- the other losses


def test_listnet_is_the_cross_entropy_of_torch():
    y, scores = normal(3, 6), normal(3, 6, seed=1)
    center, scale = y.mean(-1, keepdim=True), y.std(-1, keepdim=True, unbiased=False)
    wanted = torch.softmax(-(y - center) / scale, dim=-1)
    expected = torch.nn.functional.cross_entropy(scores, wanted, reduction="none")
    same(ListNet()(scores, y), expected, 1e-12)


def test_neuralsort_is_the_cross_entropy_of_the_relaxed_permutation():
    y, s = [0.4, 0.1, 0.4, 0.9, 0.1], [0.3, -1.2, 0.8, 2.0, -0.4]
    wanted = {1: (1, 4), 2: (1, 4), 3: (0, 2), 4: (0, 2), 5: (3,)}  # items of each position
    expected = 0.0
    for i, tied in wanted.items():
        logits = [(6 - 2 * i) * s[j] - sum(abs(s[j] - s[k]) for k in range(5)) for j in range(5)]
        total = sum(math.exp(logit) for logit in logits)
        expected -= sum(math.log(math.exp(logits[j]) / total) for j in tied) / len(tied)
    assert NeuralSort()(f64(s), f64(y)).item() == pytest.approx(expected, rel=1e-12)


def test_neuralsort_is_zero_only_for_the_true_order():
    y = f64([3.0, 1.0, 2.0, 0.0])
    assert NeuralSort()(-20.0 * y, y).item() == pytest.approx(0.0, abs=1e-6)
    assert NeuralSort()(20.0 * y, y).item() > 10.0


def test_ranknet_is_a_double_loop_over_pairs():
    y, s = [0.4, 0.1, 0.4, 0.9, 0.1], [0.3, -1.2, 0.8, 2.0, -0.4]
    expected = 0.0
    for i in range(5):
        for j in range(i):
            target = 0.5 if y[i] == y[j] else float(y[i] < y[j])
            p = 1 / (1 + math.exp(s[j] - s[i]))
            expected -= target * math.log(p) + (1 - target) * math.log(1 - p)
    assert RankNet()(f64(s), f64(y)).item() == pytest.approx(expected, rel=1e-12)
    assert RankNet().prepare(f64(y)).total.item() == 10


def test_ranknet_wants_one_half_for_ties():
    target = RankNet().prepare(f64([2.0, 1.0, 2.0])).target
    same(target, f64([[0.5, 1.0, 1.0], [0.0, 0.5, 0.5], [0.0, 0.5, 0.5]]))
    assert RankNet()(f64([0.0, 0.0]), f64([1.0, 1.0])).item() == pytest.approx(math.log(2))


def test_pointwise_wants_ranks_from_one_to_minus_one():
    loss = Pointwise()
    same(loss.prepare(f64([7.0, 3.0, 5.0, 4.0, 9.0])).target, f64([1.0, 0.5, 0.0, -0.5, -1.0]))
    same(loss.prepare(f64([2.0, 1.0, 2.0])).target, f64([1.0, -0.5, -0.5]))
    same(loss.prepare(f64([4.0, 4.0, 4.0])).target, f64([0.0, 0.0, 0.0]))
    value = loss(f64([0.5, -1.0, 0.0]), f64([1.0, 2.0, 3.0]))
    assert value.item() == pytest.approx(0.5 * (0.25 + 1.0 + 1.0))


def test_mse_is_half_the_squared_distance_to_standardized_losses():
    y, scores = normal(3, 6, scale=40.0) + 300.0, normal(3, 6, seed=1)
    center, scale = y.mean(-1, keepdim=True), y.std(-1, keepdim=True, unbiased=False)
    same(MeanSquaredError()(scores, y), 0.5 * ((scores + (y - center) / scale) ** 2).sum(-1))


@pytest.mark.parametrize("n", [1, 3, 7, 10])
@every_dtype
def test_mse_wants_zero_for_all_when_all_are_tied(dtype, n):
    target = MeanSquaredError().prepare(torch.full((n,), 0.1, dtype=dtype)).target
    assert target.abs().max() < 1e-6


@pytest.mark.parametrize("masked", [False, True])
def test_gaussian_nll_is_that_of_torch_without_the_constant(masked):
    mean, log_variance, y = (normal(3, 6, seed=k) for k in range(3))
    mask = torch.arange(6) < torch.tensor([[6], [4], [1]]) if masked else None
    each = -Normal(mean, torch.exp(0.5 * log_variance)).log_prob(y) - 0.5 * math.log(2 * math.pi)
    expected = each.sum(-1) if mask is None else torch.where(mask, each, 0.0).sum(-1)
    same(gaussian_nll(mean, log_variance, y, mask), expected, 1e-12)


@pytest.mark.parametrize("junk", [3.0, 1e4, -1e4])
def test_gaussian_nll_and_its_gradient_ignore_the_padding(junk):
    mask = torch.tensor([True, True, False])
    mean, log_variance = f64([0.2, -1.0, junk]), f64([0.5, -0.3, junk])
    y = f64([0.0, 1.0, -junk])
    whole = [v.clone().requires_grad_() for v in (mean, log_variance)]
    short = [v[:2].clone().requires_grad_() for v in (mean, log_variance)]
    value, expected = gaussian_nll(*whole, y, mask), gaussian_nll(*short, y[:2])
    same(value, expected)
    gradients = torch.autograd.grad(value, whole)
    for gradient, wanted in zip(gradients, torch.autograd.grad(expected, short), strict=True):
        same(gradient, torch.cat([wanted, torch.zeros(1, dtype=torch.float64)]))


# ---------------------------------------------------------------------- extreme scores


@every_dtype
@every_limit
@every_kind
def test_extreme_scores_have_finite_losses_and_gradients(kind, limit, dtype):
    loss, y = build(kind, limit=limit), torch.arange(9, dtype=dtype)
    perfect = torch.linspace(1e4, -1e4, 9, dtype=dtype)
    jumps = torch.where(y % 2 == 0, 1e4, -1e4).to(dtype)
    for scores in (perfect, perfect.flip(-1), jumps, -jumps, torch.full_like(y, -1e4)):
        value, gradient = by_autograd(loss, scores, y)
        closed = by_hand(loss, scores, y)
        assert value.isfinite() and gradient.isfinite().all() and closed.isfinite().all()
        rounding = torch.finfo(dtype).eps * 1e4
        same(closed, gradient, 20 * rounding)


@every_dtype
@pytest.mark.parametrize("limit", [None, 2e4])
@pytest.mark.parametrize("kind", [k for k in PROBABILISTIC if k != "listnet"])
def test_loss_of_a_perfect_ranking_falls_to_zero_and_its_gradient_keeps_its_sign(
    kind, limit, dtype
):
    """A small constant within the logarithm would push the scores back together."""
    loss, n = build(kind, limit=limit), 7
    y = torch.arange(n, dtype=dtype)
    direction = torch.linspace(0.5, -0.5, n, dtype=dtype)
    before = loss(0 * direction, y).item()
    for spread in (1.0, 10.0, 60.0, 100.0, 1e3, 1e4):
        rounding = 4 * torch.finfo(dtype).eps * spread
        value, gradient = by_autograd(loss, spread * direction, y)
        assert 0 <= value.item() <= before
        for g in (gradient, by_hand(loss, spread * direction, y)):
            assert (g * direction).sum() <= rounding
            assert g[0] <= rounding and g[-1] >= -rounding
        before = value.item()
    assert before < 1e-12


@every_dtype
@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_loss_of_a_reversed_ranking_grows_with_the_spread(weighting, dtype):
    y = torch.arange(5, dtype=dtype)
    direction = torch.linspace(-0.5, 0.5, 5, dtype=dtype)
    values = [ListMLE(weighting)(s * direction, y).item() for s in (1.0, 10.0, 1e2, 1e3, 1e4)]
    assert values == sorted(values)
    w = weights_by_formula(weighting, 5)
    assert values[-1] == pytest.approx(1e4 * sum(w[i] * (1 - i / 4) for i in range(5)), rel=1e-4)


# ---------------------------------------------------------------------- gradients


@every_limit
@every_kind
def test_gradients_pass_gradcheck_with_ties_and_masks(kind, limit):
    loss = build(kind, limit=limit)
    y = f64([[0.3, 0.1, 0.7, 0.2, 0.5], [1.0, 0.0, 1.0, 1.0, 0.0], [2.0, 1.0, 1.0, 3.0, 0.0]])
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 1, 1], [1, 1, 0, 1, 0]]).bool()
    scores = normal(3, 5).requires_grad_()
    assert torch.autograd.gradcheck(lambda s: loss(s, y), scores)
    assert torch.autograd.gradcheck(lambda s: loss(s, y, mask), scores)


@every_kind
@given(data=tied_lists(), limit=st.sampled_from(LIMITS))
@settings(max_examples=20)
def test_closed_form_is_the_derivative_by_autograd(kind, data, limit):
    y, scores = data
    loss = build(kind, limit=limit)
    same(by_hand(loss, scores, y), by_autograd(loss, scores, y)[1])


@pytest.mark.parametrize("scale", [3.0, 21.0, 40.0])
@every_limit
@every_kind
def test_closed_form_is_the_derivative_for_scores_far_apart(kind, limit, scale):
    loss = build(kind, limit=limit, slope=None if limit is None else 1 / scale)
    y, scores = normal(4, 9), scale * torch.linspace(-1, 1, 9, dtype=torch.float64)
    scores = scores.expand(4, 9).contiguous()
    same(by_hand(loss, scores, y), by_autograd(loss, scores, y)[1])


@every_limit
@every_kind
@pytest.mark.parametrize("ties", [False, True])
def test_sorted_lists_with_gaps_are_the_lists_of_what_remains(kind, limit, ties):
    loss, n = build(kind, limit=limit), 8
    y = f64([0.0, 1.0, 1.0, 1.0, 2.0, 3.0, 3.0, 4.0]) if ties else torch.arange(n).double()
    mask = torch.tensor(
        [
            [1, 1, 1, 1, 1, 1, 1, 1],
            [0, 0, 1, 0, 1, 1, 1, 1],  # the first of a tied group is missing
            [1, 1, 0, 0, 0, 1, 0, 1],  # so is the last
            [1, 1, 1, 1, 1, 0, 0, 0],
            [0, 0, 0, 0, 1, 0, 0, 0],
            [1, 0, 0, 0, 0, 0, 0, 1],
        ]
    ).bool()
    lists = loss.prepare_sorted(y, mask)
    scores = normal(3, len(mask), n, scale=2.0)
    value, gradient = loss.value(scores, lists), loss.gradient(scores, lists)
    leaf = scores.clone().requires_grad_()
    same(torch.autograd.grad(loss.value(leaf, lists).sum(), leaf)[0], gradient)
    for m, k in itertools.product(range(3), range(len(mask))):
        kept = mask[k]
        expected, wanted = by_autograd(loss, scores[m, k, kept], y[kept])
        same(value[m, k], expected)
        same(gradient[m, k, kept], wanted)
        assert (gradient[m, k, ~kept] == 0).all()
        same(lists.total[k], loss.prepare(y[kept]).total)


@pytest.mark.parametrize("weighting", WEIGHTINGS)
@pytest.mark.parametrize("limit", [4.0, 25.0, 30.0])
def test_fast_and_general_gradients_of_listmle_agree(weighting, limit, monkeypatch):
    loss = ListMLE(weighting, limit=limit)
    y = torch.randint(0, 9, (5, 12), generator=torch.Generator().manual_seed(0)).double()
    mask = normal(5, 12, seed=2) < 0.8
    scores = normal(2, 5, 12, seed=1, scale=limit)
    fast = by_hand(loss, scores, y, mask)
    monkeypatch.setattr(losses, "_SAFE_SPREAD", 0.0)
    monkeypatch.delattr(ListMLE, "_limited_gradient")
    general = by_hand(loss, scores, y, mask)
    same(fast, general)
    same(fast, by_autograd(loss, scores, y, mask)[1])


def test_limits_up_to_thirty_take_the_fast_path(monkeypatch):
    monkeypatch.setattr(ListMLE, "_limited_gradient", lambda self, scores, lists: 0 * scores)
    y, scores = normal(5), normal(5, seed=1)
    taken = [bool((by_hand(ListMLE(limit=k), scores, y) == 0).all()) for k in (4.0, 25.0, 30.0)]
    assert all(taken)
    for limit in (31.0, None):
        assert by_hand(ListMLE(limit=limit), scores, y).abs().max() > 0


@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_fast_gradient_of_saturated_scores_is_accurate_in_float32(weighting):
    loss, y = ListMLE(weighting, limit=30.0), torch.arange(20, dtype=torch.float64)
    for scores in (torch.linspace(40, -40, 20), torch.linspace(-40, 40, 20)):
        single = by_hand(loss, scores, y.float())
        same(single.double(), by_hand(loss, scores.double(), y), 1e-5)


@every_kind
def test_closed_form_leaves_its_arguments_alone(kind):
    y, scores = normal(5), normal(5, seed=1)
    for limit in LIMITS:
        loss = build(kind, limit=limit)
        lists, given_scores = loss.prepare(y), scores.clone()
        target = lists.target.clone()
        with torch.inference_mode():
            once = loss.gradient(given_scores, lists)
            again = loss.gradient(given_scores, lists)
        assert torch.equal(once, again)
        assert torch.equal(given_scores, scores) and torch.equal(lists.target, target)


# ---------------------------------------------------------------------- masks and batches


@every_kind
@given(
    data=tied_lists(5),
    limit=st.sampled_from(LIMITS),
    junk=st.lists(st.sampled_from([0.0, 1.0, 1e4, -1e4, 1e30, -1e30]), min_size=6, max_size=6),
    places=st.lists(st.integers(0, 5), min_size=1, max_size=3),
)
@settings(max_examples=20)
def test_padding_anywhere_and_of_any_value_changes_nothing(kind, data, limit, junk, places):
    y, scores = data
    rows = [(a, b, True) for a, b in zip(y.tolist(), scores.tolist(), strict=True)]
    for k, place in enumerate(places):
        rows.insert(min(place, len(rows)), (junk[k], junk[-1 - k], False))
    long_y, long_scores, mask = (list(column) for column in zip(*rows, strict=True))
    long_y, long_scores, mask = f64(long_y), f64(long_scores), torch.tensor(mask)
    loss = build(kind, limit=limit)
    expected, wanted = by_autograd(loss, scores, y)
    value, gradient = by_autograd(loss, long_scores, long_y, mask)
    closed = by_hand(loss, long_scores, long_y, mask)
    same(value, expected)
    for g in (gradient, closed):
        same(g[mask], wanted)
        assert (g[~mask] == 0).all()
    same(loss.prepare(long_y, mask).total, loss.prepare(y).total)


@every_limit
@every_kind
def test_the_largest_numbers_of_float32_in_the_padding_change_nothing(kind, limit):
    loss, largest = build(kind, limit=limit), 3e38
    y, scores = torch.tensor([0.2, 0.1, 0.7]), torch.tensor([1.0, -0.5, 0.3])
    junk, mask = torch.tensor([largest, -largest]), torch.tensor([1, 1, 1, 0, 0]).bool()
    expected, wanted = by_autograd(loss, scores, y)
    long_y, long_scores = torch.cat([y, junk]), torch.cat([scores, junk])
    value, gradient = by_autograd(loss, long_scores, long_y, mask)
    same(value, expected, 1e-5)
    for g in (gradient, by_hand(loss, long_scores, long_y, mask)):
        same(g, torch.cat([wanted, torch.zeros(2)]), 1e-5)


@every_limit
@every_kind
def test_a_list_of_one_item_has_a_finite_mean_and_teaches_no_order(kind, limit):
    loss, y, scores = build(kind, limit=limit), f64([3.0]), f64([0.7])
    value, gradient = by_autograd(loss, scores, y)
    assert (value / loss.prepare(y).total).isfinite()
    assert gradient.isfinite().all()
    same(by_hand(loss, scores, y), gradient)
    if kind in PROBABILISTIC:
        assert value.item() == 0 and gradient.item() == 0


@every_limit
@every_kind
def test_a_list_without_items_costs_nothing(kind, limit):
    loss, y, scores = build(kind, limit=limit), normal(2, 4), normal(2, 4, seed=1)
    mask = torch.tensor([[True] * 4, [False] * 4])
    value, gradient = by_autograd(loss, scores, y, mask)
    assert value[1] == 0 and (gradient[1] == 0).all()
    assert (by_hand(loss, scores, y, mask)[1] == 0).all()
    assert (value / loss.prepare(y, mask).total).isfinite().all()
    same(value[0], loss(scores[0], y[0]))


@pytest.mark.parametrize("masked", [False, True])
@every_limit
@every_kind
def test_lists_of_members_are_as_each_list_alone(kind, limit, masked):
    loss = build(kind, limit=limit)
    y = normal(3, 6)
    y[1, 2:5] = y[1, 0]
    scores = normal(2, 3, 6, seed=1)
    mask = torch.arange(6) < torch.tensor([[6], [4], [1]]) if masked else None
    value, gradient = by_autograd(loss, scores, y, mask)
    closed = by_hand(loss, scores, y, mask)
    assert value.shape == (2, 3)
    same(by_autograd(loss, scores, y.expand(2, 3, 6), mask)[1], gradient)
    for m, k in itertools.product(range(2), range(3)):
        alone = None if mask is None else mask[k]
        expected, wanted = by_autograd(loss, scores[m, k], y[k], alone)
        same(value[m, k], expected)
        same(gradient[m, k], wanted)
        same(closed[m, k], wanted)


# ---------------------------------------------------------------------- ties


@every_kind
@given(data=tied_lists(), limit=st.sampled_from(LIMITS), seed=st.integers(0, 99))
@settings(max_examples=20)
def test_the_order_in_which_items_are_given_does_not_matter(kind, data, limit, seed):
    y, scores = data
    loss = build(kind, limit=limit)
    moved = torch.randperm(len(y), generator=torch.Generator().manual_seed(seed))
    value, gradient = by_autograd(loss, scores, y)
    other, other_gradient = by_autograd(loss, scores[moved], y[moved])
    same(other, value)
    same(other_gradient, gradient[moved])
    same(by_hand(loss, scores[moved], y[moved]), gradient[moved])


@every_limit
@every_kind
def test_tied_items_may_exchange_their_scores(kind, limit):
    loss = build(kind, limit=limit)
    y, scores = f64([2.0, 1.0, 1.0, 3.0, 1.0, 2.0]), normal(6)
    expected = loss(scores, y)
    for moved in ([0, 2, 1, 3, 4, 5], [5, 4, 1, 3, 2, 0]):
        same(loss(scores[moved], y), expected)
        same(by_hand(loss, scores[moved], y), by_hand(loss, scores, y)[moved])


@every_limit
@every_kind
def test_tied_items_of_equal_scores_are_left_where_they_are(kind, limit):
    loss, y, scores = build(kind, limit=limit), torch.full((5,), 0.25).double(), f64([0.0] * 5)
    for gradient in (by_autograd(loss, scores, y)[1], by_hand(loss, scores, y)):
        same(gradient, torch.zeros(5, dtype=torch.float64), 1e-14)


@every_limit
@every_kind
def test_tied_items_of_unequal_scores_are_pulled_together(kind, limit):
    loss, y = build(kind, limit=limit), torch.full((4,), 0.25).double()
    scores = f64([0.5, -0.3, 0.1, -0.3])
    gradient = by_hand(loss, scores, y)
    assert gradient[0] > gradient[2] > gradient[1]
    assert gradient[1] == gradient[3]
    moved = scores - 0.1 * gradient / gradient.abs().max()
    assert moved.max() - moved.min() < scores.max() - scores.min()


@pytest.mark.parametrize("group", [[0, 1], [1, 2, 3], [3, 4]])
@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_tied_items_share_the_mean_of_their_weights(weighting, group):
    y = torch.arange(5).double()
    y[group] = float(group[0])
    w = f64(weights_by_formula(weighting, 5))
    w[group] = w[group].mean()
    same(ListMLE(weighting).prepare(y).target, w, 1e-14)


# ---------------------------------------------------------------------- what they teach


@every_limit
@every_kind
def test_the_right_order_costs_less_than_the_reversed_one(kind, limit):
    loss, y = build(kind, limit=limit), f64([0.3, 0.1, 0.9, 0.5])
    assert loss(-y, y) < loss(torch.zeros_like(y), y) < loss(y, y)


@every_limit
@every_kind
def test_gradient_descent_on_free_scores_finds_the_right_order(kind, limit):
    loss, y = build(kind, limit=limit), f64([0.3, 0.1, 0.9, 0.5, 0.4])
    lists, scores = loss.prepare(y), normal(5, scale=0.5)[torch.argsort(y)]
    assert not (scores.diff() < 0).all()
    for _ in range(300):
        scores -= 0.5 * loss.gradient(scores, lists) / lists.total
    assert (scores.diff() < 0).all()


@pytest.mark.parametrize("shift", [-3.0, 1e3])
@pytest.mark.parametrize("kind", PROBABILISTIC)
def test_shifting_all_scores_changes_nothing(kind, shift):
    loss, y, scores = build(kind), normal(7), normal(7, seed=1)
    value, gradient = by_autograd(loss, scores, y)
    shifted, shifted_gradient = by_autograd(loss, scores + shift, y)
    same(shifted, value)
    same(shifted_gradient, gradient)
    assert by_hand(loss, scores, y).sum().item() == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("transform", [torch.exp, lambda y: y**3, lambda y: 1e6 * y - 5])
@pytest.mark.parametrize("kind", ORDINAL)
def test_only_the_order_of_the_losses_matters_to_what_ranks(kind, transform):
    loss, y, scores = build(kind), normal(7), normal(7, seed=1)
    y[3] = y[5]
    assert loss.ordinal
    assert torch.equal(loss(scores, transform(y)), loss(scores, y))


@pytest.mark.parametrize("kind", ["listnet", "mse"])
def test_units_of_the_losses_do_not_matter_to_what_standardizes(kind):
    loss, y, scores = build(kind), normal(7), normal(7, seed=1)
    assert not loss.ordinal
    same(loss(scores, 30.0 * y - 5.0), loss(scores, y))
    assert not torch.isclose(loss(scores, torch.exp(y)), loss(scores, y))


# ---------------------------------------------------------------------- range control


@pytest.mark.parametrize(("k", "alpha"), [(1.0, 1.0), (10.0, 0.1), (3.0, 2.0)])
def test_range_control_is_bounded_with_a_known_slope_at_zero(k, alpha):
    scores = f64([-1e4, -3.0, 0.0, 0.2, 1e4]).requires_grad_()
    controlled = range_control(scores, k, alpha)
    assert controlled.abs().max() <= k
    assert controlled[[0, 2, 4]].tolist() == pytest.approx([-k, 0.0, k])
    (slope,) = torch.autograd.grad(controlled.sum(), scores)
    assert slope[2].item() == pytest.approx(k * alpha)
    assert (slope >= 0).all()


@every_kind
def test_small_scores_stay_as_they_are_by_default(kind):
    small = f64([1e-3, -2e-3])
    assert torch.equal(build(kind).controlled(small), small)
    same(build(kind, limit=5.0).controlled(small), small, 1e-6)
    same(build(kind, limit=5.0, slope=0.4).controlled(small), 2.0 * small, 1e-5)


@pytest.mark.parametrize(("limit", "slope"), [(0.5, None), (5.0, None), (5.0, 0.7), (40.0, 1.0)])
@every_kind
def test_limit_caps_what_a_loss_sees(kind, limit, slope):
    limited, free = build(kind, limit=limit, slope=slope), build(kind)
    y, scores = normal(6), normal(6, seed=1, scale=3.0)
    seen = range_control(scores, limit, slope or 1 / limit)
    same(limited(scores, y), free(seen, y))
    same(by_hand(limited, scores, y), by_autograd(limited, scores, y)[1])
    extreme = torch.where(y < 0, -1e4, 1e4).double()
    same(limited(extreme, y), free(extreme.clamp(-limit, limit), y))


# ---------------------------------------------------------------------- construction


def test_losses_are_made_by_name():
    for name, kind in LOSSES.items():
        loss = make_loss(name, limit=7.0)
        assert type(loss) is kind
        assert loss.limit == 7.0 and loss.slope == pytest.approx(1 / 7)
    assert make_loss().weighting == "inverse-log"
    assert make_loss(weighting="attention").weighting == "attention"
    assert make_loss().limit is None and make_loss().slope is None


def test_every_option_is_part_of_the_description():
    loss = ListMLE("attention", limit=4.0, slope=0.5)
    assert loss.description == {
        "name": "ListMLE",
        "weighting": "attention",
        "limit": 4.0,
        "slope": 0.5,
    }
    assert RankNet().description == {"name": "RankNet", "limit": None, "slope": None}


def test_unknown_names_are_refused():
    with pytest.raises(UnknownNameError, match="listmle"):
        make_loss("listmel")
    with pytest.raises(UnknownNameError, match="inverse-log"):
        make_loss("listmle", weighting="inverse-lgo")
    with pytest.raises(UnknownNameError, match="attention"):
        ListMLE("atention")


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan])
@every_kind
def test_limits_and_slopes_that_are_not_positive_are_refused(kind, value):
    with pytest.raises(OptionError, match="limit must be positive"):
        build(kind, limit=value)
    with pytest.raises(OptionError, match="slope must be positive"):
        build(kind, limit=1.0, slope=value)


@every_kind
def test_a_slope_without_a_limit_is_refused(kind):
    with pytest.raises(OptionError, match="without a limit"):
        build(kind, slope=1.0)


@every_kind
def test_an_empty_list_is_refused(kind):
    with pytest.raises(OptionError, match="must have items"):
        build(kind)(torch.empty(3, 0), torch.empty(3, 0))
