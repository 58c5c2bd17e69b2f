"""Warm starts: which past tasks are similar, and when their best configurations are proposed."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from rankwise import Encoder, Optimizer, Task, TaskSet
from rankwise.errors import OptionError, UnknownNameError
from rankwise.methods.registry import make
from rankwise.strategies.base import RandomStrategy
from rankwise.strategies.baselines import greedy_portfolio
from rankwise.strategies.model_based import ModelStrategy
from rankwise.strategies.warm_start import InitStrategy, best_rows, greedy_order
from rankwise.surrogates.empirical_bayes.past_functions import task_digest

ENCODER = Encoder({"x": (0.0, 1.0), "y": (0.0, 1.0)})
NONE = np.empty((0, 2))
CENTRES = {
    "a": [0.1, 0.1],
    "b": [0.9, 0.1],
    "c": [0.1, 0.9],
    "d": [0.9, 0.9],
    "e": [0.5, 0.5],
    "f": [0.15, 0.15],
}


def bowl(name, n=30, context=None) -> Task:
    X = ENCODER.sample(n, np.random.default_rng(ord(name)))
    return Task.of(X, np.square(X - CENTRES[name]).sum(axis=1), name=name, context=context)


def tasks(contexts=False) -> list[Task]:
    """With contexts, the later in the alphabet the more rows."""
    return [
        bowl(name, context={"rows": 10.0 * k} if contexts else None)
        for k, name in enumerate(CENTRES)
    ]


def start(past=None, *, similar=3, points=4, then=None) -> InitStrategy:
    then = then or RandomStrategy(ENCODER, None)
    return InitStrategy.of(ENCODER, past or tasks(), similar=similar, points=points, then=then)


def names(strategy, order) -> str:
    """The tasks in an order, as one word."""
    return "".join(strategy.past.voters[t] for t in order)


def history(centre, X=None, context=None) -> Task:
    X = np.random.default_rng(7).random((6, 2)) if X is None else np.asarray(X)
    return Task.of(X, np.square(X - centre).sum(axis=1), context=context)


def propose(strategy, known, pending=NONE):
    return strategy.propose(known, pending, np.random.default_rng(0))


def best_of(name, k=0) -> list[float]:
    task = bowl(name)
    return task.X[np.argsort(task.y)[k]].tolist()


# ---------------------------------------------------------------------- the parts


def test_the_best_rows_of_a_task_are_different_and_no_failures():
    X = np.array([[0.1, 0.1], [0.2, 0.2], [0.1, 0.1], [0.3, 0.3], [0.4, 0.4]])
    task = Task.of(X, [1.0, 2.0, 0.5, np.nan, 3.0])
    assert best_rows(ENCODER, task, 2).tolist() == [[0.1, 0.1], [0.2, 0.2]]
    assert best_rows(ENCODER, task, 9).tolist() == [[0.1, 0.1], [0.2, 0.2], [0.4, 0.4]]
    narrow = ENCODER.restricted({"x": (0.15, 1.0)})
    assert best_rows(narrow, task, 9).tolist() == [[0.2, 0.2], [0.4, 0.4]]


@pytest.mark.parametrize("seed", range(5))
def test_a_greedy_order_adds_the_most_at_each_step(seed):
    values = np.random.default_rng(seed).normal(size=(6, 4))
    order = greedy_order(values).tolist()
    assert sorted(order) == list(range(6))

    def reached(rows):
        return values[rows].min(axis=0).mean()

    for k in range(6):
        others = [reached([*order[:k], j]) for j in range(6) if j not in order[:k]]
        assert reached(order[: k + 1]) == min(others)


def test_a_greedy_order_is_not_far_from_the_best_set():
    """Of all pairs: greedy is known to reach at least 1 - 1/e of the possible gain."""
    values = np.random.default_rng(9).normal(size=(8, 12))
    first, second = greedy_order(values)[:2]
    worst = values.max(axis=0).mean()
    best = min(
        values[list(pair)].min(axis=0).mean() for pair in itertools.combinations(range(8), 2)
    )
    gained = worst - values[[first, second]].min(axis=0).mean()
    assert gained >= (1 - 1 / np.e) * (worst - best)


def test_after_the_greedy_ones_the_others_follow_by_their_means(monkeypatch):
    monkeypatch.setattr("rankwise.strategies.warm_start._GREEDY", 2)
    values = np.random.default_rng(0).normal(size=(6, 4))
    order = greedy_order(values).tolist()
    rest = values.mean(axis=1)[order[2:]]
    assert (np.diff(rest) > 0).all() and sorted(order) == list(range(6))


@pytest.mark.parametrize("seed", range(3))
def test_a_portfolio_by_rank_lowers_the_mean_best_rank_most(seed):
    rng = np.random.default_rng(seed)
    X = ENCODER.sample(12, rng)
    past = [Task.of(X, 10.0**k * np.round(rng.random(12), 1)) for k in range(4)]
    ranks = np.array([[np.sum(task.y < loss) for loss in task.y] for task in past])
    rows = greedy_portfolio(past, 3, "rank").tolist()
    chosen = [X.tolist().index(row) for row in rows]

    def reached(which):
        return ranks[:, which].min(axis=1).mean()

    for k in range(len(chosen)):
        assert reached(chosen[: k + 1]) == min(reached([*chosen[:k], j]) for j in range(12))
    assert len(chosen) == 3 or reached(chosen) == 0
    strategy = make("portfolio", ENCODER, past, length=3, measure="rank")
    assert strategy.rows.tolist() == rows
    with pytest.raises(UnknownNameError, match=r"measure.*rank, regret"):
        make("portfolio", ENCODER, past, measure="loss")


# ---------------------------------------------------------------------- which tasks are similar


def test_tasks_are_ranked_by_the_pairs_that_they_order_right():
    strategy, known = start(), history([0.12, 0.2])
    shares = []
    for source in strategy.past.sources:
        values = source(known.X)
        pairs = itertools.combinations(range(6), 2)
        shares.append(
            np.mean([(values[i] < values[j]) == (known.y[i] < known.y[j]) for i, j in pairs])
        )
    ranking = strategy.ranking(known)
    assert (np.diff(np.array(shares)[ranking]) <= 0).all()
    assert set(names(strategy, ranking[:2])) == {"a", "f"} and names(strategy, ranking)[-1] == "d"


def test_ties_are_broken_by_what_was_first_before():
    strategy = start()
    two = Task.of(np.array([[0.2, 0.5], [0.8, 0.5]]), [1.0, 2.0])  # one pair: right or wrong
    ranking = strategy.ranking(two).tolist()
    place = strategy.order.tolist().index
    right = [t for t in ranking if strategy.past.voters[t] in "acf"]
    assert ranking[:3] == right == sorted(right, key=place)
    assert ranking[3:] == sorted(ranking[3:], key=place)


@pytest.mark.parametrize(
    "known",
    [
        Task.of(NONE, []),
        Task.of(np.array([[0.3, 0.3]]), [1.0]),
        Task.of(np.array([[0.3, 0.3], [0.6, 0.6]]), [1.0, 1.0]),
        Task.of(np.array([[0.3, 0.3], [0.6, 0.6]]), [np.nan, np.nan]),
    ],
    ids=["none", "one", "equal", "failed"],
)
def test_without_an_order_tasks_come_by_context_or_greedily(known):
    strategy = start()
    assert strategy.ranking(known).tolist() == strategy.order.tolist()
    best = np.array([best_of(name) for name in strategy.past.voters])
    values = np.stack([source(best) for source in strategy.past.sources], axis=1)
    assert strategy.order.tolist() == greedy_order(values).tolist()
    informed = start(tasks(contexts=True))
    known = Task.of(known.X, known.y, context={"rows": 21.0})
    assert names(informed, informed.ranking(known)) == "cdbeaf"
    other = Task.of(known.X, known.y, context={"columns": 21.0})
    assert informed.ranking(other).tolist() == informed.order.tolist()


def test_evaluations_count_more_than_contexts():
    informed = start(tasks(contexts=True))
    known = history([0.9, 0.9], context={"rows": 0.0})
    assert names(informed, informed.ranking(known))[0] == "d"


# ---------------------------------------------------------------------- what is proposed when


def test_the_best_of_the_most_similar_comes_first_then_their_second_best():
    strategy, known = start(similar=2, points=4), history([0.9, 0.9])
    order = names(strategy, strategy.ranking(known))[:2]
    assert order[0] == "d"
    pending, proposed = NONE, []
    for _ in range(4):
        proposed.append(propose(strategy, known, pending).tolist())
        pending = np.array(proposed)
    assert proposed == [best_of(name, k) for k in range(2) for name in order]
    expected = strategy.then.propose(known, pending, np.random.default_rng(0))
    assert propose(strategy, known, pending).tolist() == expected.tolist()


def test_as_many_points_as_were_asked_for_whatever_was_evaluated_before():
    """Initial points of another origin do not count."""
    optimizer = Optimizer(
        ENCODER, method="init", tasks=tasks(), points=3, then="random", design="lhs-6", seed=0
    )
    every = np.concatenate([task.X for task in tasks()])
    for _ in range(12):
        [configuration] = optimizer.ask()
        row = ENCODER.encode([configuration])[0]
        optimizer.tell(configuration, float(np.square(row - [0.9, 0.9]).sum()))
    X = ENCODER.encode([trial.configuration for trial in optimizer.trials])
    past = [bool((row == every).all(axis=1).any()) for row in X]
    assert past == [False] * 6 + [True] * 3 + [False] * 3
    assert X[6].tolist() == best_of("d")


def test_one_past_task_gives_all_points():
    strategy, proposed = start([bowl("a")], similar=5, points=3), NONE
    for _ in range(4):
        row = propose(strategy, Task.of(NONE, []), proposed)
        proposed = np.concatenate([proposed, row[None]])
    assert proposed[:3].tolist() == [best_of("a", k) for k in range(3)]
    assert not (proposed[3] == bowl("a").X).all(axis=1).any()


def test_a_narrower_space_gets_what_it_has():
    narrow = ENCODER.restricted({"x": (0.5, 1.0)})
    then = RandomStrategy(narrow, None)
    strategy = InitStrategy.of(narrow, tasks(), similar=6, points=6, then=then)
    pending = NONE
    for _ in range(8):
        row = propose(strategy, Task.of(NONE, []), pending)
        pending = np.concatenate([pending, row[None]])
    assert (pending[:, 0] >= 0.5).all()
    assert {tuple(best_of(name)) for name in "bd"} <= {tuple(row) for row in pending}


def test_from_a_pool_the_nearest_rows_are_chosen():
    strategy, rng = start(similar=1, points=1), np.random.default_rng(0)
    pool = np.stack(np.meshgrid(*[np.linspace(0, 1, 11)] * 2), axis=-1).reshape(-1, 2)
    corners = np.isin(pool, (0.0, 1.0)).all(axis=1)  # to which nothing that is proposed is near
    known, rest = Task.of(pool[corners], [3.0, 1.0, 2.0, 0.0]), pool[~corners]
    first = rest[strategy.choose(known, rest, rng)]
    assert np.abs(first - best_of("d")).max() <= 0.05
    done = Task.of(np.vstack([known.X, first]), [*known.y, 0.5])
    rest = rest[(rest != first).any(axis=1)]
    expected = strategy.then.choose(done, rest, np.random.default_rng(3))
    assert strategy.choose(done, rest, np.random.default_rng(3)) == expected


def test_rows_with_other_last_digits_are_not_proposed_twice():
    raw = np.random.default_rng(0).random((9, 2)) * (1 - 1e-14)
    past = [Task.of(raw, raw.sum(axis=1))]
    for method, options in (("init", {"then": "random"}), ("portfolio", {})):
        optimizer = Optimizer(ENCODER, method=method, tasks=past, seed=0, **options)
        for _ in range(7):
            [configuration] = optimizer.ask()
            optimizer.tell(configuration, configuration["x"])
        rows = ENCODER.encode([trial.configuration for trial in optimizer.trials])
        assert len(np.unique(rows, axis=0)) == 7


def test_the_order_of_tasks_changes_nothing():
    known = history([0.3, 0.8])
    one, other = start(tasks()), start(tasks()[::-1])
    assert [s.digest for s in one.past.sources] == sorted(task_digest(t) for t in tasks())
    assert propose(one, known).tolist() == propose(other, known).tolist()
    assert one.order.tolist() == other.order.tolist()


# ---------------------------------------------------------------------- the method


def test_what_comes_after_is_any_method_without_transfer():
    past = TaskSet.of(ENCODER, {task.name: task for task in tasks()})
    strategy = make("init", ENCODER, past, then="gp", points=7)
    assert isinstance(strategy.then, ModelStrategy) and strategy.points == 7
    assert strategy.design is None
    with pytest.raises(OptionError, match="without transfer, not 'dre'"):
        make("init", ENCODER, past, then="dre")
    with pytest.raises(UnknownNameError, match="'gpp'"):
        make("init", ENCODER, past, then="gpp")
    with pytest.raises(OptionError, match="points"):
        make("init", ENCODER, past, points=0)


def test_without_a_past_it_is_what_comes_after():
    useless = [Task.of(np.ones((4, 2)) * 0.5, [1.0] * 4)]
    assert isinstance(make("init", ENCODER, useless, then="random"), RandomStrategy)
    elsewhere = ENCODER.restricted({"x": (0.9999, 1.0)})  # nothing of the past is there
    assert isinstance(make("init", elsewhere, tasks(), then="random"), RandomStrategy)


def test_beliefs_are_those_of_what_comes_after():
    past = TaskSet.of(ENCODER, {task.name: task for task in tasks()})
    strategy = make("init", ENCODER, past, then="gp", points=1)
    known = Task.of(np.array([best_of("a"), [0.5, 0.5], [0.2, 0.7]]), [0.1, 0.2, 0.3])
    assert strategy.explain(known, NONE + 0.0) == []
    [believed] = strategy.explain(known, np.array([[0.3, 0.3]]))
    assert believed.mean is not None
    [before] = strategy.explain(Task.of(known.X[1:], known.y[1:]), np.array([[0.3, 0.3]]))
    assert before.mean is None


def test_a_warm_start_is_ahead_of_a_cold_one():
    past = TaskSet.of(ENCODER, {name: bowl(name, n=100) for name in "ade"})

    def found(method, seed, **options):
        optimizer = Optimizer(ENCODER, method=method, seed=seed, **options)
        for _ in range(3):
            [configuration] = optimizer.ask()
            row = ENCODER.encode([configuration])[0]
            optimizer.tell(configuration, float(np.square(row - [0.85, 0.9]).sum()))
        return optimizer.best.value

    warm = np.mean([found("init", seed, tasks=past) for seed in range(5)])
    assert warm < 0.5 * np.mean([found("mbo", seed) for seed in range(5)])
