"""The scorers of a ranking ensemble as the prior of a Gaussian process (`dre-gp`)."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.stats import spearmanr

from rankwise.errors import OptionError
from rankwise.history.task import Task
from rankwise.surrogates.empirical_bayes.past_functions import scores
from rankwise.surrogates.empirical_bayes.shared_scorers import (
    FrozenScorers,
    ScorerPast,
    _some_rows,
)
from rankwise.surrogates.empirical_bayes.surrogate import EmpiricalBayes
from rankwise.surrogates.ranking.dre import DeepRankingEnsemble

STEPS = 300


def bowl(centre: float, seed: int, n: int = 40, columns: int = 2) -> Task:
    """Losses that grow with the distance from a centre in the first two columns."""
    X = np.random.default_rng(seed).random((n, columns))
    X[:, 2:] = 0.5
    return Task.of(X, np.square(X[:, :2] - centre).sum(axis=1), name=f"bowl {seed}")


def bowls(count: int, columns: int = 2) -> list[Task]:
    """Half of the tasks have their optimum at 0.2, the other half at 0.8."""
    return [bowl(0.2 if k % 2 else 0.8, k, columns=columns) for k in range(count)]


def points(n: int = 7) -> np.ndarray:
    return np.random.default_rng(9).random((n, 2))


@pytest.fixture(scope="module")
def ensemble() -> DeepRankingEnsemble:
    made = DeepRankingEnsemble(members=3, width=8, training={"steps": 20}, fine_tune=False)
    return made.meta_fit(bowls(6), progress=False)


@pytest.fixture(scope="module")
def learnt() -> EmpiricalBayes:
    return EmpiricalBayes(kind="rank", steps=STEPS).meta_fit(bowls(14), progress=False)


def in_double(past: ScorerPast) -> ScorerPast:
    """The same functions with weights of double precision, to compare gradients."""
    frozen = past.scorers
    weights = {name: w.astype(float) for name, w in frozen.weights.items()}
    twin = FrozenScorers(weights, frozen.gain, frozen.centre)
    parts = (past.lengthscales, past.voters, past.counts, past.probes, past.constant)
    return ScorerPast(twin, past.contexts.astype(float), *parts)


# ---------------------------------------------------------------------- the functions


def test_scores_are_those_of_the_ensemble_given_the_same_trials(ensemble):
    tasks, X = bowls(3), points()
    contexts = np.stack([ensemble.context_of(task) for task in tasks])
    found = FrozenScorers(ensemble.scorer_weights, np.ones(3)).outputs(X, contexts)
    for t, task in enumerate(tasks):
        expected = ensemble.with_seed(0).fit(task).scores(X)
        assert found[:, :, t] == pytest.approx(expected, abs=1e-5)


def test_a_function_is_the_constant_less_the_scores_times_their_gains(ensemble):
    contexts, gain = np.stack([ensemble.context_of(bowl(0.4, 1))]), np.array([0.5, 2.0, 0.1])
    scorers = FrozenScorers(ensemble.scorer_weights, gain, centre=3.0)
    out = scorers.outputs(points(), contexts)[:, :, 0]
    assert scorers(points(), contexts)[:, 0] == pytest.approx(3.0 - gain @ out, abs=1e-5)


def test_values_do_not_depend_on_the_size_of_a_pass(ensemble, monkeypatch):
    from rankwise.surrogates.empirical_bayes import shared_scorers

    contexts = np.stack([ensemble.context_of(task) for task in bowls(3)])
    scorers = FrozenScorers(ensemble.scorer_weights, np.ones(3))
    whole = scorers(points(), contexts)
    monkeypatch.setattr(shared_scorers, "_CHUNK", 6)
    assert scorers(points(), contexts) == pytest.approx(whole, abs=1e-5)


def test_gradients_are_those_of_the_values(learnt):
    past, x = in_double(learnt.past), np.array([0.31, 0.72])
    mean, spread, votes = past.slopes(x)
    for k in range(3):
        numeric = approx_fprime(x, lambda z, k=k: past.view(z[None]).votes[0, k], 1e-7)
        assert votes[k] == pytest.approx(numeric, abs=1e-4)
    numeric = approx_fprime(x, lambda z: past.view(z[None]).mean[0], 1e-7)
    assert mean == pytest.approx(numeric, abs=1e-4)
    numeric = approx_fprime(x, lambda z: past.view(z[None]).spread[0, 4], 1e-7)
    assert spread[4] == pytest.approx(numeric, abs=1e-4)


def test_without_a_deep_set_there_is_no_context():
    flat = DeepRankingEnsemble(members=2, width=8, deep_set=0)
    with pytest.raises(OptionError, match="deep_set"):
        flat.context_of(bowl(0.5, 0))


# ---------------------------------------------------------------------- what is learnt


def test_functions_differ_as_the_source_tasks_do(learnt):
    past = learnt.past
    names = dict(zip(past.voters, past.view(points(60)).votes.T, strict=True))
    for task in bowls(14):
        centre = 0.2 if int(task.name.split()[1]) % 2 else 0.8
        own = spearmanr(names[task.name], np.square(points(60) - centre).sum(axis=1))
        assert own[0] > 0.9


def test_functions_have_the_size_of_scores(learnt):
    """One factor for all scorers minimizes the squared error on the source tasks."""
    past, num, den = learnt.past, 0.0, 0.0
    names = list(past.voters)
    for task in bowls(14):
        values = past.view(task.X).votes[:, names.index(task.name)]
        values = values - values.mean()
        num, den = num + values @ scores(task.losses), den + values @ values
    assert num / den == pytest.approx(1.0, abs=1e-3)


def test_held_out_tasks_are_predicted_from_the_others():
    past, lessons = ScorerPast.learn(bowls(13), 0, False, steps=20)
    assert len(past) == 13 and len(lessons) == 3
    assert all(lesson.view.votes.shape == (40, 10) for lesson in lessons)
    kept, none = ScorerPast.learn(bowls(2), 0, False, steps=5)
    assert len(kept) == 2 and none == []


def test_the_target_task_decides_which_past_studies_count(learnt):
    found = learnt.with_seed(0).fit(bowl(0.8, 50, n=8)).sources
    assert all(int(name.split()[1]) % 2 == 0 for name in list(found)[:3])
    mean = learnt.with_seed(0).fit(bowl(0.2, 51, n=8)).predict(np.array([[0.2, 0.2], [0.8, 0.8]]))
    assert mean.mean[0] < mean.mean[1]


def test_columns_that_no_past_study_varies_change_no_function():
    past, _ = ScorerPast.learn(bowls(4, columns=3), 0, False, steps=5)
    assert past.new.tolist() == [False, False, True]
    X = np.hstack([points(), np.full((7, 1), 0.5)])
    moved = X.copy()
    moved[:, 2] = 0.9
    assert past.view(moved).votes.tolist() == past.view(X).votes.tolist()
    assert not past.slopes(X[0])[2][:, 2].any()


def test_few_contexts_represent_all(learnt):
    small = learnt.past.compact(4)
    assert len(small.contexts) == 4 and len(small) == len(learnt.past) == 14
    assert small.view(points()).mean == pytest.approx(learnt.past.view(points()).mean, abs=0.3)


def test_some_rows_are_rows_of_the_task():
    task = bowl(0.4, 3)
    some = _some_rows(task, 10)
    assert len(some) == 10 and set(some.losses) < set(task.losses)
    assert len(_some_rows(task, 100)) == len(task)


def test_a_saved_model_predicts_the_same(learnt, tmp_path):
    learnt.save(tmp_path / "model.safetensors")
    loaded = EmpiricalBayes.load(tmp_path / "model.safetensors")
    task = bowl(0.7, 60, n=5)
    expected = learnt.with_seed(0).fit(task).predict(points()).mean
    assert loaded.fit(task).predict(points()).mean == pytest.approx(expected)
