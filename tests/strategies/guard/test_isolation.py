"""A method that goes its own way in a study in which others propose as well."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import optuna
import pytest

from rankwise import Encoder, Optimizer, methods, minimize
from rankwise.archive.sources.optuna_storage import columns_of_trials
from rankwise.history.task import Task
from rankwise.strategies.base import Strategy
from rankwise.strategies.guard.isolation import IsolatedStrategy
from rankwise.strategies.guard.strategy import GuardedStrategy, Judgement, Turn

ENCODER = Encoder({"x": (0.0, 1.0), "y": (0.0, 1.0)})
GRID = Encoder({"x": (0, 5), "y": (0, 5)})
NOTHING = np.empty((0, 2))


def bumpy(X):
    return np.sin(7 * X[:, 0]) + np.cos(9 * X[:, 1]) + X[:, 0]


def alone(strategy, X, losses, start, trials):
    """The rows that a strategy chooses alone."""
    rows = list(start)
    for _ in range(trials):
        free = [k for k in range(len(X)) if k not in rows]
        task = Task.of(X[rows], losses[rows])
        rows.append(free[strategy.choose(task, X[free], np.random.default_rng(0))])
    return rows


@dataclass(frozen=True)
class Misled(Strategy):
    """Knows an order that has nothing to do with the losses, and proposes what is bad by it."""

    def propose(self, history, pending, rng):
        return rng.random(self.encoder.n_columns)

    def choose(self, history, pool, rng):
        return int(np.argmax(self.foresight({})(pool)))

    def foresight(self, context):
        return lambda X: np.cos(40 * X[:, 0]) + np.sin(33 * X[:, 1])


@pytest.mark.parametrize("who", [[1, 0, 1, 1, 0, 1, 0, 1, 1], [0, 0, 0, 1, 1, 1, 1, 1, 1]])
def test_it_is_the_way_of_the_method_alone(who):
    X = np.random.default_rng(1).random((40, 2))
    losses = bumpy(X)
    plain = methods.make("gp", ENCODER)
    wanted = alone(plain, X, losses, range(3), 12)
    way, rows, own = IsolatedStrategy(plain, 3), [0, 1, 2], []
    rng = np.random.default_rng(2)
    for mine in who:
        free = [k for k in range(len(X)) if k not in rows]
        history = Task.of(X[rows], losses[rows])
        if mine:
            own.append(len(rows))
            rows.append(free[way.choose(history, own[:-1], X[free], rng)])
        else:  # another proposes what the method would have wanted later, or anything
            rows.append(next((r for r in wanted[6:] if r in free), free[0]))
    mine = [rows[k] for k in own]
    gone = [r for r in wanted if r in rows]
    assert gone == wanted[: len(gone)]  # nothing of the way alone was left out
    assert set(mine) <= set(wanted) and len(gone) > 3 + len(mine)  # some of it was for nothing
    fresh = IsolatedStrategy(plain, 3)  # which remembers nothing
    history, free = Task.of(X[rows], losses[rows]), [k for k in range(len(X)) if k not in rows]
    picks = {w.choose(history, own, X[free], rng) for w in (way, fresh)}
    assert len(picks) == 1


@pytest.fixture
def gullible(monkeypatch):
    """A guard that gives two trials of five to the past, whatever comes of it."""
    turn = lambda self, k, *, leans=True: Turn.PAST if k % 5 in (1, 3) else Turn.OWN  # noqa: E731
    monkeypatch.setattr(Judgement, "turn", turn)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.usefixtures("gullible")
def test_a_guarded_study_is_as_far_as_the_method_alone_with_fewer_trials(seed):
    X = np.random.default_rng(seed).random((60, 2))
    losses = bumpy(X)
    plain = methods.make("gp", ENCODER)
    strategy = GuardedStrategy(ENCODER, None, Misled(ENCODER, None), plain)
    guarded = alone(strategy, X, losses, range(5), 20)
    own = len(strategy._own(strategy.judge(Task.of(X[guarded], losses[guarded])), 25))
    assert own == 12
    reached = alone(plain, X, losses, range(5), own)
    assert set(reached) <= set(guarded)
    assert losses[guarded].min() <= losses[reached].min()


def test_a_proposal_that_was_evaluated_is_given_for_nothing():
    points = GRID.points
    losses = bumpy(points)
    way = IsolatedStrategy(plain := methods.make("gp", GRID), 4)
    start = [0, 8, 21, 30]
    first = plain.propose(Task.of(points[start], losses[start]), NOTHING, np.random.default_rng(0))
    other = int(np.flatnonzero((points == first).all(axis=1))[0])
    rows = [*start, other]
    second = plain.propose(Task.of(points[rows], losses[rows]), NOTHING, np.random.default_rng(0))
    history = Task.of(points[rows], losses[rows])
    np.testing.assert_array_equal(
        way.propose(history, [], NOTHING, np.random.default_rng(0)), second
    )


def test_in_an_open_space_it_is_shown_its_own_evaluations():
    seen = []

    class Watching(Strategy):
        def propose(self, history, pending, rng):
            seen.append(history.X[:, 0].tolist())
            return np.array([0.5, 0.5])

    X = np.random.default_rng(0).random((8, 2))
    history = Task.of(X, bumpy(X))
    way = IsolatedStrategy(Watching(ENCODER, None), 3)
    way.propose(history, [4, 6], NOTHING, np.random.default_rng(0))
    assert seen == [X[[0, 1, 2, 4, 6], 0].tolist()]
    X[5] = 0.5  # what it wants now was evaluated for another: it is shown that and asked again
    seen.clear()
    way.propose(Task.of(X, bumpy(X)), [4, 6], NOTHING, np.random.default_rng(0))
    assert seen == [X[[0, 1, 2, 4, 6], 0].tolist(), X[[0, 1, 2, 4, 6, 5], 0].tolist()]


def test_memory_does_not_mix_up_ways():
    X = np.random.default_rng(3).random((12, 2))
    history = Task.of(X, bumpy(X))
    plain = methods.make("gp", ENCODER)
    pool = np.random.default_rng(4).random((30, 2))
    way, ways = (
        IsolatedStrategy(plain, 3),
        [[5, 7, 8, 11], [3, 4, 5, 6, 7, 8, 9, 10, 11], [11], [5, 11]],
    )
    for own in ways:  # one after the other, as if the past had been judged otherwise
        pick = way.choose(history, own, pool, np.random.default_rng(0))
        assert pick == IsolatedStrategy(plain, 3).choose(
            history, own, pool, np.random.default_rng(0)
        )


def shown(history, own=()):
    """The evaluations that a strategy on its own way is shown in an open space."""
    seen = []

    class Watching(Strategy):
        def propose(self, history, pending, rng):
            seen.append(history.X)
            return np.full(2, 0.5)

    IsolatedStrategy(Watching(ENCODER, None), 3).propose(
        history, own, NOTHING, np.random.default_rng(0)
    )
    return [int(np.flatnonzero((row == history.X).all(axis=1))[0]) for row in seen[0]]


def test_what_nobody_was_asked_for_alone_is_shown_to_all():
    X = np.random.default_rng(0).random((8, 2))
    shared = np.array([False] * 4 + [True, False, True, False])
    assert shown(Task.of(X, bumpy(X), shared=shared), [5]) == [0, 1, 2, 4, 5, 6]


def test_designs_batches_and_told_trials_are_shared():
    past = [Task.of(np.random.default_rng(0).random((9, 2)), np.arange(9.0))] * 4
    optimizer = Optimizer(ENCODER, method="rgpe", tasks=past, guard=True, design=6, seed=0)
    for _ in range(6):
        [configuration] = optimizer.ask()
        optimizer.tell(configuration, configuration["x"])
    optimizer.tell({"x": 0.1, "y": 0.2}, 0.1)
    [alone] = optimizer.ask()
    optimizer.tell(alone, alone["x"])
    batch = optimizer.ask(3)
    for configuration in batch:
        optimizer.tell(configuration, configuration["x"])
    # Of a batch only the first is asked for with all others known.
    assert optimizer.history.shared.tolist() == [True] * 7 + [False, False, True, True]


def test_trials_of_an_optuna_study_that_were_begun_together_are_shared():
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study()
    study.enqueue_trial({"x": 0.5})
    study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=3)
    trials = [study.ask({"x": optuna.distributions.FloatDistribution(0, 1)}) for _ in range(2)]
    for trial in trials:
        study.tell(trial, 0.0)
    past = columns_of_trials("study", "minimize", study.trials)
    assert past.shared.tolist() == [True, False, False, False, True]


def test_a_failure_does_not_change_whose_trials_were_whose():
    strategy = GuardedStrategy(ENCODER, None, Misled(ENCODER, None), methods.make("gp", ENCODER))
    rng = np.random.default_rng(5)
    for _ in range(20):
        X = rng.random((16, 2))
        losses = np.where(rng.random(16) < 0.3, np.nan, bumpy(X))
        later = Task.of(np.vstack([X, rng.random((1, 2))]), [*losses, 1e3])
        whose = [strategy._own(strategy.judge(task), 16) for task in (Task.of(X, losses), later)]
        assert whose[0] == whose[1]


@pytest.mark.usefixtures("gullible")
def test_a_part_of_the_space_has_the_same_memory():
    strategy = GuardedStrategy(ENCODER, None, Misled(ENCODER, None), methods.make("gp", ENCODER))
    assert strategy.within(ENCODER).memory is strategy.memory
    X = np.random.default_rng(6).random((40, 2))
    alone(strategy, X, bumpy(X), range(5), 12)
    assert strategy.memory


def test_what_is_shared_is_stored_and_restored(tmp_path, monkeypatch):
    run = {"method": "gp", "storage": f"sqlite:///{tmp_path}/runs.db", "name": "s", "seed": 0}
    minimize(lambda c: c["x"], {"x": (0.0, 1.0)}, trials=4, **run)
    restored, restore = {}, Optimizer.restore
    monkeypatch.setattr(
        Optimizer,
        "restore",
        lambda self, trial: restored.setdefault(trial.number, trial) and restore(self, trial),
    )
    minimize(lambda c: c["x"], {"x": (0.0, 1.0)}, trials=5, **run)
    # The design has two; the others were asked for one at a time.
    assert [restored[k].shared for k in range(4)] == [True, True, False, False]


def test_it_is_explained_by_what_it_was_shown():
    X = np.random.default_rng(7).random((9, 2))
    history, plain = Task.of(X, bumpy(X)), methods.make("gp", ENCODER)
    [told] = IsolatedStrategy(plain, 3).explain(history, [4, 8], X[5:6])
    [wanted] = plain.explain(history.rows([0, 1, 2, 4, 8]), X[5:6])
    assert told == wanted != plain.explain(history, X[5:6])[0]
