"""Past studies as functions: scores, sources, views, representatives, memory."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.stats import norm

from rankwise.history.task import Task
from rankwise.surrogates.empirical_bayes import past_functions as sources
from rankwise.surrogates.empirical_bayes.past_functions import (
    Source,
    SourcePast,
    View,
    representatives,
    scores,
    sources_of,
    task_digest,
    teaches,
)
from rankwise.surrogates.numeric.memoize import Memory


def wave(centre: float, n: int = 25, seed: int = 0, d: int = 2, name: str = "") -> Task:
    X = np.random.default_rng(seed).random((n, d))
    return Task.of(X, np.square(X - centre).sum(axis=1) + 0.3 * np.sin(6 * X[:, 0]), name=name)


@pytest.fixture(scope="module")
def past() -> SourcePast:
    return SourcePast([Source.of(wave(0.2 + 0.15 * k, seed=k)) for k in range(5)])


def points(n: int = 7, d: int = 2, seed: int = 50):
    return np.random.default_rng(seed).random((n, d))


# ---------------------------------------------------------------------- scores


def test_scores_are_half_ranks_and_half_distances():
    losses = np.array([3.0, 1.0, 2.0, 2.0, 10.0])
    quantiles = (np.array([4.0, 1.0, 2.5, 2.5, 5.0]) - 0.5) / 5
    pulled = np.minimum(losses, 3 + 3 * (3 - 2))  # to the fence of outliers
    z = (pulled - pulled.mean()) / pulled.std()
    assert scores(losses) == pytest.approx(0.5 * norm.ppf(quantiles) + 0.5 * z)


def test_scores_know_order_but_no_units():
    losses = np.random.default_rng(0).normal(size=40)
    z = scores(losses)
    assert (np.argsort(z) == np.argsort(losses)).all()
    assert scores(1e6 * losses - 5e7) == pytest.approx(z, abs=1e-8)
    assert scores(np.r_[losses, 1e12])[:40] == pytest.approx(z, abs=0.5)  # an outlier is one rank


# ---------------------------------------------------------------------- one source


def test_a_source_is_a_gaussian_process_by_hand():
    source, Z = Source.of(wave(0.4)), points()
    n = len(source.X)

    def kernel(a, b):
        return np.exp(-0.5 * np.sum(((a - b) / source.lengthscales) ** 2))

    K = np.array([[kernel(a, b) for b in source.X] for a in source.X]) + source.noise * np.eye(n)
    k = np.array([[kernel(z, b) for b in source.X] for z in Z])
    inverse = np.linalg.inv(K)
    constant = inverse.sum(axis=0) @ source.scores / inverse.sum()
    expected = constant + k @ inverse @ (source.scores - constant)
    assert source(Z) == pytest.approx(expected, abs=1e-8)


def test_a_source_says_what_its_study_found():
    task = wave(0.4, n=60)
    source, new = Source.of(task), wave(0.4, n=200, seed=9)
    assert np.corrcoef(source(new.X), new.y)[0, 1] > 0.95
    assert source.digest == task_digest(task)


@pytest.mark.parametrize("d", [1, 2, 5])
def test_the_slope_of_a_source_is_its_gradient(d):
    source = Source.of(wave(0.4, d=d))
    for x in points(5, d):
        numeric = approx_fprime(x, lambda x: source(x[None])[0], 1e-7)
        assert source.slope(x) == pytest.approx(numeric, abs=1e-5)


def test_a_source_depends_on_the_numbers_of_its_study_alone(monkeypatch):
    monkeypatch.setattr(sources, "ROWS_TO_KEEP", 15)  # the choice of rows, too
    a, b = Source.of(wave(0.4, name="a")), Source.of(wave(0.4, name="another"))
    assert a.digest == b.digest and (a.name, b.name) == ("a", "another")
    assert a(points()).tolist() == b(points()).tolist()
    other = Source.of(wave(0.41))
    assert other.digest != a.digest


def test_of_a_long_study_some_rows_are_kept(monkeypatch):
    monkeypatch.setattr(sources, "ROWS_TO_FIT", 20)
    monkeypatch.setattr(sources, "ROWS_TO_KEEP", 40)
    task = wave(0.4, n=200)
    source = Source.of(task)
    assert source.X.shape == (40, 2)
    rows = [int(np.flatnonzero((x == task.X).all(axis=1))[0]) for x in source.X]
    assert source.scores.tolist() == scores(task.y)[rows].tolist()  # of the whole study
    assert len(set(rows)) == 40
    assert np.corrcoef(source(task.X), task.y)[0, 1] > 0.9


def test_a_thinned_source_goes_through_the_best_and_the_worst():
    source = Source.of(wave(0.4, n=50))
    thin = source.thinned(10)
    assert len(thin.X) == 10
    assert thin.scores.min() == source.scores.min() and thin.scores.max() == source.scores.max()
    assert thin.lengthscales is source.lengthscales and thin.digest == source.digest
    assert source.thinned(50) is source


def test_what_has_no_order_teaches_nothing():
    X = points(3)
    assert teaches(Task.of(X, [1, 2, 2])) and teaches(Task.of(X, [1, 1, np.nan]))
    for y in ([1, 1, 1], [np.nan] * 3):
        assert not teaches(Task.of(X, y))
    assert not teaches(Task.of(X[:1], [1])) and not teaches(Task.of(X[:0], []))


def test_known_sources_are_not_fitted_again(monkeypatch):
    tasks = [wave(0.1 * k, seed=k) for k in range(4)]
    known, ticks = sources_of(tasks[:3]), []
    fitted = count_fits(monkeypatch)
    found = sources_of(tasks[::-1], known, ticks.append)
    assert len(fitted) == 1 and ticks == [1, 2, 3, 4]
    assert found[1:] == known[::-1]
    assert [s.digest for s in found] == [task_digest(t) for t in tasks[::-1]]


def count_fits(monkeypatch) -> list[str]:
    """The names of the tasks that sources are fitted to from now on."""
    fitted, fit = [], Source.of.__func__

    def of(cls, task):
        fitted.append(task.name)
        return fit(cls, task)

    monkeypatch.setattr(Source, "of", classmethod(of))
    return fitted


# ---------------------------------------------------------------------- all sources


def test_a_view_is_mean_and_covariance_of_the_functions(past):
    Z = points()
    votes = np.array([source(Z) for source in past.sources])
    view = past.view(Z)
    assert view.mean == pytest.approx(votes.mean(axis=0))
    assert view.spread @ view.spread.T == pytest.approx(np.cov(votes, rowvar=False))
    assert view.votes == pytest.approx(votes.T)
    some = view.rows([4, 1])
    assert some.mean == pytest.approx(view.mean[[4, 1]]) and some.votes.shape == (2, 5)


def test_counts_are_as_good_as_repeating():
    votes, counts = np.random.default_rng(0).normal(size=(6, 4)), np.array([1.0, 3.0, 2.0, 5.0])
    repeated = np.repeat(votes, counts.astype(int), axis=1)
    a, b = View.of(votes, counts), View.of(repeated, np.ones(11))
    assert a.mean == pytest.approx(b.mean)
    assert a.spread @ a.spread.T == pytest.approx(b.spread @ b.spread.T)
    assert a.spread @ a.spread.T == pytest.approx(np.cov(repeated))


def test_one_source_has_no_spread():
    past = SourcePast([Source.of(wave(0.4))])
    assert len(past) == 1
    view = past.view(points())
    assert not view.spread.any() and view.mean == pytest.approx(view.votes[:, 0])


def test_slopes_of_the_past_are_its_gradients(past):
    weighted = SourcePast(past.sources, np.array([1.0, 4.0, 2.0, 1.0, 3.0]))
    for which in (past, weighted):
        for x in points(3):
            mean, spread, votes = which.slopes(x)

            def all_of(x, which=which):
                view = which.view(x[None])
                return np.concatenate([view.mean, view.spread[0], view.votes[0]])

            numeric = approx_fprime(x, all_of, 1e-7)
            assert np.vstack([mean, spread, votes]) == pytest.approx(numeric, abs=1e-5)


def test_lengthscales_are_typical_ones(past):
    assert past.lengthscales == pytest.approx(
        np.median([s.lengthscales for s in past.sources], axis=0)
    )


def test_parts_and_back():
    tasks = [wave(0.2 * k, n=10 + k, seed=k, name=f"study {k}") for k in range(4)]
    past = SourcePast([Source.of(t) for t in tasks], np.array([1.0, 2.0, 3.0, 4.0]))
    again = SourcePast.from_parts(*past.parts())
    assert len(again) == 10
    assert [(s.name, s.digest) for s in again.sources] == [
        (s.name, s.digest) for s in past.sources
    ]
    assert again.view(points()).spread == pytest.approx(past.view(points()).spread, abs=1e-9)


# ---------------------------------------------------------------------- lessons


def test_a_study_is_predicted_from_the_others(past):
    lessons = list(past.lessons(10))
    assert len(lessons) == 5 and len(list(past.lessons(2))) == 2
    for lesson in lessons:
        others = [s for s in past.sources if s.X.tolist() != lesson.X.tolist()]
        [own] = [s for s in past.sources if s.X.tolist() == lesson.X.tolist()]
        assert lesson.scores.tolist() == own.scores.tolist()
        assert lesson.view.votes == pytest.approx(np.array([s(lesson.X) for s in others]).T)
        assert lesson.view.counts.tolist() == [1] * 4


def test_a_copy_of_a_study_does_not_predict_it():
    tasks = [wave(0.2), wave(0.4, seed=1), wave(0.6, seed=2), wave(0.2)]
    past = SourcePast(sources_of(tasks))
    assert sorted(lesson.view.votes.shape[1] for lesson in past.lessons(9)) == [2, 2, 3, 3]


def test_copies_of_one_study_give_no_lesson():
    past = SourcePast(sources_of([wave(0.2)] * 3))
    assert list(past.lessons(9)) == []


@pytest.mark.parametrize("count", [1, 2])
def test_of_one_or_two_studies_there_are_no_lessons(past, count):
    assert list(SourcePast(past.sources[:count]).lessons(9)) == []


def test_representatives_teach_if_there_are_many(past, monkeypatch):
    monkeypatch.setattr(sources, "_MAX_PREDICTORS", 3)
    for lesson in past.lessons(9):
        assert lesson.view.votes.shape[1] in (2, 3)
        assert len(lesson.X) == 25


# ---------------------------------------------------------------------- compact


def test_a_compact_past_of_few_short_studies_is_the_same_function(past):
    compact, Z = past.compact(5, 25), points()
    assert compact is not past and len(compact) == 5
    assert compact.view(Z).mean.tolist() == past.view(Z).mean.tolist()
    assert compact.view(Z).spread.tolist() == past.view(Z).spread.tolist()
    assert [len(s.X) for s in past.compact(5, 8).sources] == [8] * 5


def test_a_compact_past_stands_for_all_of_it():
    """Three kinds of studies, four of each, alike to a hair."""
    tasks = [
        Task.of(t.X, t.y + 1e-9 * k * t.X[:, 0])
        for t in (wave(centre, seed=7) for centre in (0.1, 0.5, 0.9))
        for k in range(4)
    ]
    past, Z = SourcePast(sources_of(tasks)), points()
    compact = past.compact(3, 25)
    assert len(compact) == 12 and sorted(compact.counts) == [4, 4, 4]
    full, small = past.view(Z), compact.view(Z)
    assert small.mean == pytest.approx(full.mean, abs=1e-5)
    assert small.spread @ small.spread.T == pytest.approx(full.spread @ full.spread.T, abs=1e-5)
    again = compact.compact(2, 25)  # the counts of the counts
    assert sorted(again.counts) == [4, 8]


def test_representatives_are_one_of_each_kind():
    rng = np.random.default_rng(0)
    kinds = 10 * rng.normal(size=(3, 20))
    which = np.array([0, 1, 2, 1, 1, 0, 2, 2, 2, 1])
    values = kinds[which] + 0.1 * rng.normal(size=(10, 20))
    values += 100 * rng.normal(size=(10, 1))  # a level says nothing about where to look
    chosen, counts = representatives(values, np.ones(10), 3)
    assert sorted(which[chosen]) == [0, 1, 2]
    assert dict(zip(which[chosen], counts, strict=True)) == {0: 2, 1: 4, 2: 4}
    _, heavy = representatives(values, np.arange(10.0), 3)
    expected = {k: float(np.flatnonzero(which == k).sum()) for k in range(3)}
    assert sorted(heavy) == sorted(expected.values())
    everyone, ones = representatives(values, np.ones(10), 10)
    assert sorted(everyone) == list(range(10)) and ones.tolist() == [1] * 10


def test_of_equal_functions_one_is_enough():
    chosen, counts = representatives(np.ones((6, 4)), np.ones(6), 3)
    assert len(chosen) == 1 and counts.tolist() == [6]


# ---------------------------------------------------------------------- memory


class Function:
    """A function of rows that remembers what it was asked."""

    def __init__(self):
        self.asked = []

    def __call__(self, X):
        self.asked.append(len(X))
        return np.stack([X.sum(axis=1), np.square(X).sum(axis=1), X[:, 0]], axis=1)


def test_memory_asks_for_new_rows_only():
    function, X = Function(), points(6)
    memory = Memory(function)
    assert memory(X).tolist() == function(X).tolist()
    del function.asked[:]
    assert memory(X[[3, 3, 0]]).tolist() == Function()(X[[3, 3, 0]]).tolist()
    assert function.asked == []
    both = np.concatenate([X[4:], points(3, seed=1)])
    assert memory(both).tolist() == Function()(both).tolist()
    assert function.asked == [3]


def test_memory_of_repeated_rows():
    function, X = Function(), points(4)[[0, 1, 0, 2, 1, 3]]
    assert Memory(function)(X).tolist() == Function()(X).tolist()
    assert function.asked == [4]


def test_memory_forgets_and_stays_right(monkeypatch):
    monkeypatch.setattr("rankwise.surrogates.numeric.memoize.MEMORY", 10)
    function, rng, table = Function(), np.random.default_rng(0), points(30)
    memory = Memory(function)
    for size in (4, 6, 3, 8, 10, 1, 9, 25, 2, 30, 5, 7) * 3:
        X = table[rng.integers(30, size=size)]
        assert memory(X).tolist() == Function()(X).tolist()
        assert len(memory._index) == len(memory._values) <= max(10, len(np.unique(X, axis=0)))


def test_memory_of_columns_that_are_not_contiguous():
    X = np.asfortranarray(points(5))
    memory = Memory(Function())
    assert memory(X).tolist() == memory(np.ascontiguousarray(X)).tolist()
    assert memory(X[::2]).tolist() == Function()(X[::2]).tolist()


def test_memory_of_nothing():
    assert Memory(Function())(np.empty((0, 2))).shape == (0, 3)


def test_a_past_that_remembers_says_the_same(past, monkeypatch):
    remembering, Z = SourcePast(past.sources, remember=True), points()
    expected = past.view(Z)
    for _ in range(2):
        assert remembering.view(Z).mean == pytest.approx(expected.mean, abs=1e-9)
    monkeypatch.setattr(Source, "__call__", None)  # calling it would fail
    assert remembering.view(Z[::-1]).mean == pytest.approx(expected.mean[::-1], abs=1e-9)
