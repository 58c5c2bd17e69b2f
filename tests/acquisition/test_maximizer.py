"""Searches for the largest utility, on utilities whose maximum is known."""

from __future__ import annotations

import ConfigSpace as CS
import numpy as np
import pytest
from scipy.stats import rankdata

from rankwise import Encoder, make_space
from rankwise.acquisition.maximizer import Maximizer, Seen, best_of_set, random_unseen
from rankwise.acquisition.search import Box, FocusSearch, LocalSearch, Tournament
from rankwise.errors import SpaceExhausted

NUMERIC = Encoder({"x": (0.0, 1.0), "y": (0.0, 1.0), "z": (0.0, 1.0)})
MIXED = Encoder(
    make_space(
        {
            "kernel": ["rbf", "poly", "linear"],
            "C": (1e-3, 1e3, "log"),
            "gamma": (1e-4, 10.0, "log"),
            "degree": (2, 6),
        },
        when={"gamma": {"kernel": "rbf"}, "degree": {"kernel": "poly"}},
        forbid=[{"kernel": "poly", "degree": 6}],
    )
)
NONE = np.empty((0, 3))


def peak(X):
    """Largest at (0.3, 0.7, 0.123456)."""
    return -np.sum((X - [0.3, 0.7, 0.123456]) ** 2, axis=1)


def prefers(wanted):
    """Utility that is largest at one configuration of MIXED."""
    target = MIXED.encode([wanted])[0]
    return lambda X: -np.abs(X - target).sum(axis=1)


def test_the_maximum_of_a_smooth_utility_is_found_to_five_digits():
    found = Maximizer()(peak, NUMERIC, np.random.default_rng(0), Seen(NONE), NONE)
    assert found == pytest.approx([0.3, 0.7, 0.123456], abs=1e-4)


def test_gradients_do_not_lead_to_a_forbidden_configuration():
    encoder = Encoder(make_space({"n": (1, 2**31 + 1, "log")}, forbid=[{"n": 2**31 + 1}]))
    found = Maximizer()(
        lambda X: X[:, 0],
        encoder,
        np.random.default_rng(0),
        Seen(np.empty((0, 1))),
        np.empty((0, 1)),
        slope=lambda x: (float(x[0]), np.ones(1)),
    )
    [configuration] = encoder.decode(found[None])
    assert 10**9 < configuration["n"] <= 2**31


def test_focus_search_alone_beats_random_search_of_equal_size():
    rng = np.random.default_rng(1)
    gaps = []
    for _ in range(10):
        search = FocusSearch(points=100, rounds=5, restarts=1)
        _, focused = search(peak, NUMERIC, rng)
        gaps.append(np.max(peak(NUMERIC.sample(500, rng))) - np.max(focused))
    assert np.mean(gaps) < -1e-4


def test_local_search_never_loses_its_starts():
    rng = np.random.default_rng(2)
    codes = NUMERIC.sample_codes(5, rng)
    values = peak(NUMERIC.encode_codes(codes))
    found, heights = LocalSearch()(peak, NUMERIC, rng, codes, values)
    assert np.max(heights) > np.max(values)
    assert peak(NUMERIC.encode_codes(found)) == pytest.approx(heights)


@pytest.mark.parametrize(
    "wanted",
    [
        {"kernel": "rbf", "C": 12.0, "gamma": 0.02},
        {"kernel": "poly", "C": 0.5, "degree": 4},
        {"kernel": "linear", "C": 900.0},
    ],
)
def test_every_branch_of_a_hierarchical_space_can_be_found(wanted):
    rng = np.random.default_rng(3)
    x = Maximizer()(prefers(wanted), MIXED, rng, Seen(NONE), np.empty((0, MIXED.n_columns)))
    [found] = MIXED.decode(x[None])
    assert found["kernel"] == wanted["kernel"]
    assert set(found) == set(wanted)
    assert np.log(found["C"]) == pytest.approx(np.log(wanted["C"]), abs=0.1)


def test_all_candidates_are_valid():
    seen_by_utility = []

    def utility(X):
        seen_by_utility.append(X)
        return np.random.default_rng(len(X)).random(len(X))

    elite = MIXED.sample(3, np.random.default_rng(0))
    Maximizer()(utility, MIXED, np.random.default_rng(4), Seen(NONE), elite)
    X = np.concatenate(seen_by_utility)
    assert np.array_equal(MIXED.encode(MIXED.decode(X)), X)  # encode refuses invalid ones


def test_a_box_shrinks_around_the_best_point():
    rng = np.random.default_rng(5)
    best = MIXED.codes([{"kernel": "rbf", "C": 1.0, "gamma": 0.1}])[0]
    box = Box(MIXED)
    for _ in range(4):
        box.shrink(best, rng)
    configurations = MIXED.decode(MIXED.encode_codes(box.sample(200, rng)))
    assert {c["kernel"] for c in configurations} == {"rbf"}
    logs = [np.log10(c["C"]) for c in configurations]
    assert np.ptp(logs) < 6 / 2**4 + 1e-9
    assert np.mean(logs) == pytest.approx(0.0, abs=0.1)


def test_inactive_parameters_do_not_shrink():
    box = Box(MIXED)
    box.shrink(MIXED.codes([{"kernel": "linear", "C": 1.0}])[0], np.random.default_rng(6))
    widths = dict(zip(MIXED.names, box._high - box._low, strict=True))
    assert widths["C"] == 0.5
    assert widths["gamma"] == widths["degree"] == 1.0


def test_a_nearly_forbidden_space_is_searched_all_the_same():
    space = CS.ConfigurationSpace({"a": (0.0, 1.0), "b": (0.0, 1.0), "c": (0.0, 1.0)})
    encoder = Encoder(space, extra_forbidden=[CS.ForbiddenLessThanClause(space["b"], 0.998)])
    x = Maximizer()(peak, encoder, np.random.default_rng(0), Seen(NONE), NONE)
    [found] = encoder.decode(x[None])
    assert found["b"] >= 0.998
    assert found["a"] == pytest.approx(0.3, abs=0.1)


def test_points_next_to_seen_ones_are_passed_over():
    seen = Seen(np.array([[0.5, 0.5]]), np.array([[0.2, 0.2]]))
    X = np.array([[0.5 + 1e-6, 0.5], [0.5 + 1e-4, 0.5], [0.2 + 1e-4, 0.2], [0.9, 0.0]])
    assert seen.far(X).tolist() == [False, True, False, True]
    assert seen.new(X).all()


def test_a_finite_set_never_repeats_and_ends():
    encoder = Encoder({"a": [1, 2, 3], "b": (0, 1)})
    rng = np.random.default_rng(7)
    rows = np.empty((0, encoder.n_columns))
    for _ in range(6):
        x = Maximizer()(lambda X: X[:, 0], encoder, rng, Seen(rows), rows)
        assert Seen(rows).new(x[None]).all()
        rows = np.concatenate([rows, x[None]])
    with pytest.raises(SpaceExhausted):
        Maximizer()(lambda X: X[:, 0], encoder, rng, Seen(rows), rows)
    with pytest.raises(SpaceExhausted):
        random_unseen(encoder, Seen(rows), rng)


def test_best_of_set_takes_the_largest_unseen():
    X = np.array([[0.1], [0.9], [0.5]])
    assert best_of_set(lambda X: X[:, 0], X, Seen(X[[1]])) == [0.5]


def test_seen_points_of_a_large_space_are_passed_over():
    rng = np.random.default_rng(8)
    first = Maximizer()(peak, NUMERIC, np.random.default_rng(8), Seen(NONE), NONE)
    second = Maximizer()(peak, NUMERIC, np.random.default_rng(8), Seen(first[None]), NONE)
    assert not np.array_equal(first, second)
    assert random_unseen(NUMERIC, Seen(first[None]), rng).shape == (3,)


def test_a_random_utility_is_asked_once():
    calls = []

    def draw(X):
        calls.append(len(X))
        return np.arange(len(X), dtype=float)

    elite = NUMERIC.sample(2, np.random.default_rng(0))
    Maximizer()(draw, NUMERIC, np.random.default_rng(9), Seen(NONE), elite, once=True)
    assert len(calls) == 1


# ---------------------------------------------------------------------- tournaments


def within_the_set(utility):
    """What a surrogate of ranks knows: who is better than whom among those asked about together.

    Values fall from call to call, so that a comparison across calls goes wrong.
    """
    calls = []

    def ranks(X):
        calls.append(X)
        return rankdata(utility(X)) / len(X) - 1e6 * len(calls)

    ranks.calls = calls
    return ranks


def test_a_tournament_finds_the_maximum_from_ranks_alone():
    utility = within_the_set(peak)
    rng = np.random.default_rng(10)
    found = Maximizer()(utility, NUMERIC, rng, Seen(NONE), NONE, relative=True)
    assert found == pytest.approx([0.3, 0.7, 0.123456], abs=0.02)
    assert len(utility.calls) == 5


def test_a_tournament_ends_with_the_best_of_its_last_set():
    utility = within_the_set(peak)
    codes, values = Tournament()(utility, NUMERIC, np.random.default_rng(11), NONE)
    X = utility.calls[-1]
    assert np.array_equal(NUMERIC.encode_codes(codes), X)
    assert np.array_equal(np.argsort(values), np.argsort(peak(X)))
    found = Maximizer()(
        within_the_set(peak), NUMERIC, np.random.default_rng(11), Seen(NONE), NONE, relative=True
    )
    assert np.array_equal(found, X[np.argmax(peak(X))])


def test_the_winners_of_a_set_meet_again_in_the_next():
    utility = within_the_set(peak)
    tournament = Tournament(points=100, rounds=4, winners=7)
    tournament(utility, NUMERIC, np.random.default_rng(12), NONE)
    assert [len(X) for X in utility.calls] == [100, 107, 107, 107]
    for before, after in zip(utility.calls, utility.calls[1:], strict=False):
        best = before[np.argsort(-peak(before), kind="stable")[:7]]
        assert np.array_equal(after[:7], best)
    tops = [np.max(peak(X)) for X in utility.calls]
    assert tops == sorted(tops)


@pytest.mark.parametrize(
    "wanted",
    [
        {"kernel": "rbf", "C": 12.0, "gamma": 0.02},
        {"kernel": "poly", "C": 0.5, "degree": 4},
        {"kernel": "linear", "C": 900.0},
    ],
)
def test_tournaments_find_every_branch_of_a_hierarchical_space(wanted):
    utility = within_the_set(prefers(wanted))
    elite = MIXED.sample(3, np.random.default_rng(0))
    x = Maximizer()(utility, MIXED, np.random.default_rng(13), Seen(elite), elite, relative=True)
    [found] = MIXED.decode(x[None])
    assert found["kernel"] == wanted["kernel"]
    assert set(found) == set(wanted)
    assert found.get("degree") == wanted.get("degree")
    assert np.log(found["C"]) == pytest.approx(np.log(wanted["C"]), abs=0.3)
    X = np.concatenate(utility.calls)
    assert np.array_equal(MIXED.encode(MIXED.decode(X)), X)  # encode refuses invalid ones


def test_half_of_the_first_set_is_near_the_elite():
    utility = within_the_set(peak)
    elite = np.array([[0.9, 0.1, 0.9], [0.1, 0.1, 0.1]])
    tournament = Tournament(points=400, rounds=1)
    tournament(utility, NUMERIC, np.random.default_rng(14), elite)
    [X] = utility.calls
    gaps = np.abs(X[:, None] - elite).max(axis=2)
    assert len(X) == 400
    assert (gaps[200:].min(axis=1) < 0.1).mean() > 0.5 > 0.1 > (gaps[:200] < 0.1).mean()
    assert (gaps[200:] < 0.1).any(axis=0).all()  # every one of the elite has descendants


def test_the_elite_helps_where_random_points_find_nothing():
    target = np.array([0.31, 0.72, 0.13])
    needle = within_the_set(lambda X: (np.abs(X - target).max(axis=1) < 0.01).astype(float))
    rng = np.random.default_rng(15)
    found = Maximizer()(needle, NUMERIC, rng, Seen(NONE), target[None] + 0.005, relative=True)
    assert np.abs(found - target).max() < 0.01


@pytest.mark.parametrize("relative", [False, True])
def test_once_means_one_call_whatever_else(relative):
    elite = NUMERIC.sample(2, np.random.default_rng(0))
    utility = within_the_set(peak)
    found = Maximizer()(
        utility,
        NUMERIC,
        np.random.default_rng(16),
        Seen(elite),
        elite,
        relative=relative,
        once=True,
    )
    [X] = utility.calls
    assert np.array_equal(found, X[np.argmax(peak(X))])
    finite = Encoder({"a": [1, 2, 3], "b": (0, 1)})
    calls = []
    Maximizer()(
        lambda X: calls.append(len(X)) or X[:, 0],
        finite,
        np.random.default_rng(0),
        Seen(finite.points[:2]),
        finite.points[:2],
        relative=relative,
        once=True,
    )
    assert calls == [4]


def test_tournaments_never_propose_what_was_seen():
    rows = NONE
    for k in range(4):
        x = Maximizer()(
            within_the_set(lambda X: X[:, 0]),  # largest on a face of the cube
            NUMERIC,
            np.random.default_rng(k),
            Seen(rows),
            rows,
            relative=True,
        )
        assert Seen(rows).far(x[None]).all()
        rows = np.concatenate([rows, x[None]])


def test_a_tournament_in_a_nearly_forbidden_space():
    space = CS.ConfigurationSpace({"a": (0.0, 1.0), "b": (0.0, 1.0), "c": (0.0, 1.0)})
    encoder = Encoder(space, extra_forbidden=[CS.ForbiddenLessThanClause(space["b"], 0.998)])
    elite = encoder.sample(2, np.random.default_rng(1))
    x = Maximizer()(
        within_the_set(peak), encoder, np.random.default_rng(0), Seen(elite), elite, relative=True
    )
    [found] = encoder.decode(x[None])
    assert found["b"] >= 0.998
    assert found["a"] == pytest.approx(0.3, abs=0.15)


def test_a_tournament_repeats_with_its_generator():
    a, b, c = (
        Maximizer()(
            within_the_set(peak),
            NUMERIC,
            np.random.default_rng(k),
            Seen(NONE),
            NONE,
            relative=True,
        )
        for k in (1, 1, 2)
    )
    assert np.array_equal(a, b) and not np.array_equal(a, c)


def test_the_first_batch_keeps_apart():
    rng, pending = np.random.default_rng(0), np.array([[0.3, 0.7, 0.123456]])
    near = Maximizer()(peak, NUMERIC, rng, Seen(NONE, pending), NONE)
    apart = Maximizer()(peak, NUMERIC, rng, Seen(NONE, pending), NONE, blind=True)
    assert np.abs(near - pending).max() < 0.01
    assert 0.1 < np.abs(apart - pending).max() < 0.12


def test_after_a_standstill_every_second_proposal_is_elsewhere():
    rng = np.random.default_rng(0)
    seen = np.array([[0.3, 0.7, 0.12], [0.31, 0.7, 0.12], [0.3, 0.69, 0.12]])
    gaps = []
    for stalled in (0, 1, 2, 3, 4):
        found = Maximizer()(peak, NUMERIC, rng, Seen(seen), seen, stalled=stalled)
        gaps.append(np.abs(seen - found).max(axis=1).min())
    least = 0.5 * 3 ** (-1 / 3)
    assert [gap >= least for gap in gaps] == [False, False, True, False, True]
