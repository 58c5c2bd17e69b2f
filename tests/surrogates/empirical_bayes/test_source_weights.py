"""Weights of source tasks: similar data sets, and own studies against built-in ones."""

from __future__ import annotations

import numpy as np
import pytest

from rankwise.history.task import BUILTIN, GROUP, Task
from rankwise.surrogates.empirical_bayes.past_functions import Source
from rankwise.surrogates.empirical_bayes.source_weights import (
    COMPARED,
    FEATURES,
    GUESSING,
    Similarity,
    builtin_weight,
    described,
    different_tasks,
)
from rankwise.surrogates.empirical_bayes.surrogate import EmpiricalBayes

X = np.linspace(0.0, 1.0, 9)[:, None]


def source(best, name, **context):
    """A study of one hyperparameter with its optimum at `best`."""
    k = float(name[1:])  # equal studies would be copies of each other
    losses = np.square(X[:, 0] - best) + 1e-3 * np.sin(7 * k + 9 * X[:, 0])
    return Source.of(Task.of(X, losses, name=name, context=context))


def builtins(best):
    return [source(best, f"b{k}", **{BUILTIN: 1.0}) for k in range(6)]


def own(best, count):
    return [source(best, f"o{10 + k}") for k in range(count)]


def test_own_studies_outweigh_built_in_ones_that_predict_them_badly():
    assert builtin_weight([*builtins(0.1), *own(0.9, 3)], None) <= 0.1


def test_built_in_studies_keep_their_weight_until_own_ones_predict_each_other():
    assert builtin_weight([*builtins(0.1), *own(0.9, 1)], None) == 1.0  # one cannot be held out
    assert builtin_weight(own(0.9, 3), None) == 1.0
    unlike = [source(best, f"o{20 + k}") for k, best in enumerate((0.0, 0.95))]
    assert builtin_weight([*builtins(0.45), *unlike], None) == 1.0


@pytest.mark.parametrize("told", [True, False])
def test_similar_data_sets_count_more_if_that_predicts_better(told):
    rng = np.random.default_rng(0)
    tables, sources = rng.random((24, 4)), []
    for k, row in enumerate(tables):
        best = float(row[0]) if told else 0.5
        sources.append(source(best, f"s{k}", **dict(zip(FEATURES, row, strict=False))))
    probed = np.array([s(X) for s in sources])
    similar = Similarity.learn(sources, lambda: probed)
    if not told:
        assert similar is None  # equal weights are as good
        return
    weights = similar.weights(dict(zip(FEATURES, tables[3], strict=False)))
    assert np.argmax(weights) == 3 and weights.sum() < len(sources)
    assert similar.weights({"log_rows": 1.0}) is None


def test_unknown_meta_features_do_not_count():
    rows = np.random.default_rng(0).random((12, 5))
    part = Similarity(FEATURES[:4], rows[:, :4], 0.2)
    whole = Similarity(FEATURES[:5], rows, 0.2)
    known = dict(zip(FEATURES, rows[3, :4], strict=False))
    assert np.allclose(whole.weights(known), part.weights(known))
    assert np.argmax(whole.weights(known)) == 3


def test_landmarks_are_compared_with_each_other_and_with_guessing():
    scores = {"nearest": 0.7, "linear": 0.9, "tree": 0.6, "bayes": 0.5}
    context = {f"hand_landmark_{name}": score for name, score in scores.items()}
    found = described({**context, GUESSING: 0.4})
    assert found["linear-tree"] == pytest.approx(0.3) and found["best_landmark"] == 0.9
    assert found["best_landmark-largest_class"] == pytest.approx(0.5)
    del context["hand_landmark_bayes"]
    found = described(context)  # a regression has no classes
    assert np.isnan(found["bayes-tree"]) and found["best_landmark"] == 0.9
    assert np.isnan(described({})["best_landmark"])
    assert set(found) == set(COMPARED)


def test_a_model_of_data_sets_with_unknown_meta_features_can_be_kept(tmp_path):
    rng = np.random.default_rng(0)
    tasks = []
    for k, row in enumerate(rng.random((24, 5))):
        context = dict(zip(FEATURES, row, strict=False))
        if k % 3 == 0:  # as in an archive of an earlier version
            del context[FEATURES[4]]
        losses = np.square(X[:, 0] - row[0]) + 1e-3 * np.sin(7 * k + 9 * X[:, 0])
        tasks.append(Task.of(X, losses, name=f"s{k}", context=context))
    learnt = EmpiricalBayes().meta_fit(tasks)
    assert np.isnan(learnt.past.similarity.table).any()
    learnt.save(tmp_path / "model.safetensors")
    loaded = EmpiricalBayes.load(tmp_path / "model.safetensors")
    context = dict.fromkeys(FEATURES, 0.3)
    assert np.array_equal(
        loaded.past.similarity.weights(context), learnt.past.similarity.weights(context)
    )


def test_near_duplicates_do_not_predict_each_other():
    twins = [source(0.2, f"t{k}", **{GROUP: 7.0}) for k in (1, 2)]
    different = different_tasks([*twins, source(0.2, "t3")])
    assert different.tolist() == [
        [False, False, True],
        [False, False, True],
        [True, True, False],
    ]
