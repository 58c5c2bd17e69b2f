"""Deep Ranking Ensembles: ranks, what they learn from the task and from past ones, files."""

from __future__ import annotations

import json
import math
import pickle
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file
from scipy.stats import kendalltau
from support.plain import parabola

from rankwise.errors import ModelFileError, OptionError, UnknownNameError
from rankwise.history.task import Task
from rankwise.surrogates import DeepRankingEnsemble
from rankwise.surrogates import model_files as files
from rankwise.surrogates.model_files import read_model, write_model
from rankwise.surrogates.numeric.batched_networks import Architecture
from rankwise.surrogates.ranking.fine_tuning import scaled_ranks
from rankwise.surrogates.ranking.losses import LOSSES, WEIGHTINGS
from rankwise.surrogates.ranking.meta_training import MetaTraining

QUICK = {"members": 3, "layers": 2, "width": 8, "deep_set": 4, "epochs": 30}
NOTHING = Task.of(np.empty((0, 2)), [])
X = np.random.default_rng(0).random((25, 2))


def quick(**options) -> DeepRankingEnsemble:
    return DeepRankingEnsemble(**QUICK | options)


def taus(ensemble: DeepRankingEnsemble, task: Task) -> list[float]:
    """How well each scorer has the order of a task: 1 is perfect."""
    return [kendalltau(-scores, task.losses).statistic for scores in ensemble.scores(task.X)]


@pytest.fixture(scope="module")
def _learnt_once() -> DeepRankingEnsemble:
    """Past tasks have their optimum near (0.7, 0.3)."""
    rng = np.random.default_rng(1)
    centres = np.clip([0.7, 0.3] + 0.1 * rng.normal(size=(10, 2)), 0, 1)
    tasks = [parabola(c, 40, k) for k, c in enumerate(centres)]
    training = MetaTraining(steps=150, lists=4, list_size=20, support=10, rate=5e-3)
    return quick(training=training).meta_fit(tasks[:8], tasks[8:])


@pytest.fixture
def learnt(_learnt_once) -> DeepRankingEnsemble:
    return _learnt_once.with_seed(0)


@pytest.fixture(params=["random", "learnt"])
def ensemble(request) -> DeepRankingEnsemble:
    return quick() if request.param == "random" else request.getfixturevalue("learnt")


# ---------------------------------------------------------------------- predictions


def check_posterior(ensemble: DeepRankingEnsemble, X=X) -> None:
    """Mean and spread of the ranks are those of the members' scores, by brute force."""
    posterior, scores = ensemble.predict(X), ensemble.scores(X)
    n = len(X)
    ranks = np.array(
        [
            [1 + np.sum(row > score) + (np.sum(row == score) - 1) / 2 for score in row]
            for row in scores
        ]
    )
    assert np.isfinite(scores).all()
    assert posterior.mean == pytest.approx(ranks.mean(axis=0))
    assert posterior.std == pytest.approx(ranks.std(axis=0))
    assert posterior.mean.min() >= 1 and posterior.mean.max() <= n
    assert ranks.sum(axis=1) == pytest.approx(n * (n + 1) / 2)
    assert np.array_equal(ensemble.ranks(X), ranks)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 5, 12])
def test_any_number_of_observations_gives_ranks(ensemble, n):
    task = parabola([0.2, 0.8], n, 7)
    ensemble.fit(task)
    check_posterior(ensemble)
    slowly = min(30, 8 * n) if ensemble.meta_learned else 30
    assert ensemble.epochs_ == (0 if n < 2 else slowly)


@pytest.mark.parametrize("n", [0, 1, 2, 999, 1000, 1001, 2500])
def test_any_number_of_candidates_is_ranked_among_all(n):
    ensemble = quick(members=2, epochs=5).fit(parabola([0.2, 0.8], 6, 7))
    many = np.random.default_rng(n).random((n, 2))
    assert ensemble.scores(many).shape == (2, n)
    ranks = ensemble.ranks(many)
    assert np.sort(ranks, axis=1) == pytest.approx(np.tile(np.arange(1, n + 1), (2, 1)), abs=1)


@pytest.mark.parametrize(
    "losses",
    [
        pytest.param([3.0] * 6, id="constant"),
        pytest.param([math.nan] * 6, id="all-failed"),
        pytest.param([1.0, math.nan, 2.0, math.inf, 0.5, math.nan], id="some-failed"),
        pytest.param([1.0, math.nan, 1.0, 1.0, 1.0, 1.0], id="one-failed"),
        pytest.param([1e300, -1e300, 1.0, 2.0, 1e308, 0.0], id="huge"),
        pytest.param([1.7e308, -1.7e308, 1e308, -1e308, 0.0, 1.0], id="largest"),
        pytest.param([1e-300, 2e-300, 3e-300, 4e-300, 5e-300, 0.0], id="tiny"),
        pytest.param([5e-324, 0.0, 1e-323, 1e-310, 1e-320, 2e-320], id="subnormal"),
        pytest.param([4e7, 0.1, 0.2, 0.15, 3e6, 0.12], id="outliers"),
        pytest.param([0.0, 1.0, 1.0, 0.0, 0.0, 1.0], id="tied"),
    ],
)
@pytest.mark.parametrize("loss", ["listmle", "mse"])
def test_strange_losses_give_ranks_without_a_warning(losses, loss):
    task = Task.of(X[:6], losses)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ensemble = quick(loss=loss).fit(task)
    check_posterior(ensemble)
    different = len(set(task.losses)) > 1
    assert ensemble.epochs_ == (30 if different else 0)


@pytest.mark.parametrize("factor", [1e-300, 1.0, 1e90])
def test_the_scale_of_the_losses_does_not_matter(factor):
    task = parabola([0.2, 0.8], 12, 7)
    scaled = Task.of(task.X, task.y * factor)
    assert np.array_equal(quick().fit(scaled).scores(X), quick().fit(task).scores(X))


def test_failures_count_as_the_worst():
    """Where the task failed the scorers learn to expect nothing good."""
    task = parabola([0.2, 0.8], 30, 3)
    left = task.X[:, 0] < 0.5
    failed = Task.of(task.X, np.where(left, np.nan, task.y))
    ensemble = quick(width=16, epochs=300).fit(failed)
    ranks = ensemble.predict(task.X).mean
    assert ranks[left].mean() > 20 and ranks[~left].mean() < 12


def test_equal_scores_share_their_rank(monkeypatch):
    ensemble = quick().fit(NOTHING)
    scores = np.array([[1.0, 3.0, 3.0, 0.0, 3.0], [2.0, 2.0, 2.0, 2.0, 2.0], [5, 4, 3, 2, 1.0]])
    monkeypatch.setattr(ensemble, "scores", lambda X: scores)
    expected = np.array([[4, 2, 2, 5, 2], [3] * 5, [1, 2, 3, 4, 5]])
    assert ensemble.ranks(X[:5]).tolist() == expected.tolist()
    posterior = ensemble.predict(X[:5])
    assert posterior.mean == pytest.approx(expected.mean(axis=0))
    assert posterior.std == pytest.approx(expected.std(axis=0))


def test_joint_predictions_have_the_covariance_of_the_ranks(ensemble):
    ensemble.fit(parabola([0.2, 0.8], 8, 7))
    posterior = ensemble.predict(X, joint=True)
    expected = np.cov(ensemble.ranks(X), rowvar=False, bias=True)
    assert posterior.covariance == pytest.approx(expected, abs=1e-12)
    assert np.sqrt(np.diag(posterior.covariance)) == pytest.approx(posterior.std)
    assert ensemble.predict(X).covariance is None
    draw = posterior.draw(np.random.default_rng(0))
    assert draw.shape == (25,) and np.isfinite(draw).all()


def test_ranks_depend_on_the_set_and_scores_do_not():
    ensemble = quick().fit(parabola([0.2, 0.8], 8, 7))
    assert ensemble.relative
    assert ensemble.scores(X)[:, :10] == pytest.approx(ensemble.scores(X[:10]), rel=1e-5)
    assert ensemble.ranks(X[:10]).max() == 10
    assert not np.array_equal(ensemble.ranks(X)[:, :10], ensemble.ranks(X[:10]))


# ---------------------------------------------------------------------- learning the task


@pytest.mark.parametrize("options", [{}, {"support": 0.0}, {"deep_set": 0}], ids=str)
def test_fine_tuning_brings_the_observations_into_order(options):
    task = parabola([0.7, 0.3], 30, 3)
    ensemble = quick(width=16, epochs=800, **options).fit(task)
    assert min(taus(ensemble, task)) > 0.9
    assert ensemble.predict(task.X).mean.argmin() == task.losses.argmin()


def test_meta_learned_scorers_are_brought_into_order_as_well(learnt, saved):
    task = parabola([0.1, 0.9], 20, 3)  # nothing like the past
    assert max(taus(learnt.fit(NOTHING), task)) < 0
    # Scores beyond a limit have next to no gradient, so without one.
    options = {"epochs": 800, "pace": 0.0, "rate": 0.01, "support": 0.0, "limit": None}
    assert min(taus(DeepRankingEnsemble.load(saved, **options).fit(task), task)) > 0.8


def test_every_fit_starts_anew(ensemble):
    first, second = parabola([0.7, 0.3], 9, 3), parabola([0.1, 0.9], 6, 4)
    expected = ensemble.with_seed(0).fit(second).scores(X)
    assert np.array_equal(ensemble.fit(first).fit(second).scores(X), expected)
    assert np.array_equal(ensemble.fit(second).fit(second).scores(X), expected)
    nothing = ensemble.with_seed(0).fit(NOTHING).scores(X)
    assert np.array_equal(ensemble.fit(NOTHING).scores(X), nothing)


def test_an_ensemble_that_has_learnt_nothing_takes_tasks_of_any_width():
    wide = Task.of(np.random.default_rng(0).random((6, 3)), np.arange(6.0))
    expected = quick().fit(wide).scores(wide.X)
    again = quick().fit(parabola([0.7, 0.3], 9, 3)).fit(wide)
    assert np.array_equal(again.scores(wide.X), expected)


def test_fitting_leaves_the_meta_learned_weights_alone(learnt):
    before = learnt._start.clone()
    learnt.fit(parabola([0.1, 0.9], 9, 3)).predict(X)
    assert torch.equal(learnt._start, before)
    assert not torch.equal(learnt._weights, before)


def test_the_seed_decides(ensemble):
    task = parabola([0.1, 0.9], 9, 3)
    first, again, other = (ensemble.with_seed(s).fit(task).predict(X) for s in (1, 1, 2))
    assert np.array_equal(first.mean, again.mean) and np.array_equal(first.std, again.std)
    assert not np.array_equal(other.mean, first.mean)


def test_with_seed_gives_another_ensemble_and_keeps_this_one(learnt):
    learnt.fit(parabola([0.1, 0.9], 9, 3))
    expected = learnt.scores(X)
    twin = learnt.with_seed(5)
    assert (twin.seed, learnt.seed) == (5, 0) and twin.meta_learned
    twin.fit(parabola([0.5, 0.5], 6, 4))
    assert np.array_equal(learnt.scores(X), expected)


def test_a_reused_ensemble_goes_on_from_its_last_weights(learnt):
    task = parabola([0.1, 0.9], 9, 3)
    learnt.fit(task)
    start, twin = learnt._start.clone(), learnt.reused()
    assert torch.equal(twin._start, learnt._weights)
    twin.fit(task)
    fresh = learnt.with_seed(0).fit(task).scores(X)
    assert not np.array_equal(twin.scores(X), fresh)
    assert np.mean(taus(twin, task)) >= np.mean(taus(learnt, task))
    assert torch.equal(learnt._start, start)


@pytest.mark.parametrize("n", [3, 8])
def test_a_fitted_ensemble_can_be_pickled(ensemble, n):
    ensemble.fit(parabola([0.1, 0.9], n, 3))
    twin = pickle.loads(pickle.dumps(ensemble))
    assert np.array_equal(twin.scores(X), ensemble.scores(X))
    task = parabola([0.5, 0.1], 6, 4)
    assert np.array_equal(twin.fit(task).scores(X), ensemble.fit(task).scores(X))


def test_patience_ends_fine_tuning_early():
    task = parabola([0.7, 0.3], 6, 3)
    ensemble = quick(width=16, epochs=500, support=0.0, patience=5).fit(task)
    assert 5 <= ensemble.epochs_ < 500
    assert np.array_equal(ensemble.ranks(task.X)[:, task.losses.argmin()], [1, 1, 1])


@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_learns(loss):
    task = parabola([0.7, 0.3], 20, 3)
    ensemble = quick(width=16, epochs=200, loss=loss).fit(task)
    check_posterior(ensemble)
    assert np.mean(taus(ensemble, task)) > 0.6


@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_every_weighting_learns(weighting):
    task = parabola([0.7, 0.3], 20, 3)
    ensemble = quick(width=16, epochs=200, weighting=weighting, limit=None).fit(task)
    assert ensemble.predict(task.X).mean[np.argsort(task.losses)[:3]].mean() < 5


@pytest.mark.parametrize(
    "options",
    [{"deep_set": 0}, {"fine_tune": False}, {"members": 1}, {"layers": 1}, {"limit": None}],
    ids=str,
)
def test_parts_can_be_left_out(options):
    ensemble = quick(**options).fit(parabola([0.7, 0.3], 8, 3))
    check_posterior(ensemble)
    assert ensemble.epochs_ == (30 if options != {"fine_tune": False} else 0)
    if options == {"members": 1}:
        assert (ensemble.predict(X).std == 0).all()


def test_without_fine_tuning_random_scorers_see_observations_through_the_deep_set_alone():
    first, second = parabola([0.7, 0.3], 8, 3), parabola([0.1, 0.9], 8, 4)
    seeing, blind = quick(fine_tune=False), quick(fine_tune=False, deep_set=0)
    assert not np.array_equal(seeing.fit(first).scores(X), seeing.fit(second).scores(X))
    assert np.array_equal(blind.fit(first).scores(X), blind.fit(second).scores(X))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"members": 0}, OptionError, "members must be a positive integer"),
        ({"layers": 0}, OptionError, "layers"),
        ({"width": 1.5}, OptionError, "width"),
        ({"epochs": 0}, OptionError, "epochs"),
        ({"support": 1.0}, OptionError, "support must be at least 0 and below 1"),
        ({"support": -0.1}, OptionError, "support"),
        ({"loss": "listml"}, UnknownNameError, "Did you mean 'listmle'"),
        ({"weighting": "log"}, UnknownNameError, "inverse-log"),
        ({"limit": 0.0}, OptionError, "limit must be positive"),
        ({"deep_set": -1}, OptionError, "deep_set"),
        ({"patience": -1}, OptionError, "patience"),
        ({"rate": 0.0}, OptionError, "rate"),
        ({"random_rate": -0.1}, OptionError, "random_rate"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_options_that_make_no_sense_are_refused(options, error, message):
    with pytest.raises(error, match=message):
        DeepRankingEnsemble(**options)


# ---------------------------------------------------------------------- learning from past tasks


def test_past_tasks_give_a_better_order_than_chance_before_the_first_observation(learnt):
    new = parabola([0.75, 0.25], 100, 99)
    posterior = learnt.fit(NOTHING).predict(new.X)
    assert kendalltau(posterior.mean, new.losses).statistic > 0.6
    best = np.argsort(new.losses)[:10]
    assert posterior.mean[best].mean() < 20
    unlearnt = quick().fit(NOTHING).predict(new.X).mean
    assert kendalltau(unlearnt, new.losses).statistic < 0.5


def test_the_deep_set_tells_where_the_optimum_of_this_task_is():
    """Past optima lie anywhere: only the observations can say where this one is."""
    rng = np.random.default_rng(5)
    past = [parabola(rng.random(1), 30, 200 + k) for k in range(30)]
    training = MetaTraining(steps=250, lists=8, list_size=15, support=15, rate=1e-2)
    ensemble = quick(width=16, fine_tune=False, training=training).meta_fit(past)
    for k, centre in enumerate((0.1, 0.9)):
        new, seen = parabola([centre], 100, 900 + k), parabola([centre], 8, 70 + k)
        best = np.argsort(new.losses)[:10]
        before = ensemble.fit(Task.of(np.empty((0, 1)), [])).predict(new.X).mean[best].mean()
        after = ensemble.fit(seen).predict(new.X).mean[best].mean()
        assert ensemble.epochs_ == 0
        assert after < 20 < 50 < before


@dataclass(frozen=True)
class LinearArchitecture(Architecture):
    """An ensemble whose context is a linear map of the mean evaluation."""

    @property
    def context_shapes(self):
        return {"set0": (self.columns + 1, self.context)}

    def context_network(self, weights, gradients):
        return LinearContext(weights["set0"], gradients["set0"])


class LinearContext:
    def __init__(self, weight, gradient):
        self.weight, self.gradient = weight, gradient

    def forward(self, items, pool):
        self.means = torch.bmm(pool, items).flatten(0, 1)
        return self.means @ self.weight

    def backward(self, dz):
        self.gradient.addmm_(self.means.T, dz)


class LinearEnsemble(DeepRankingEnsemble):
    def _shape(self, columns):
        return LinearArchitecture(columns, self.members, self.layers, self.width, self.deep_set)


def test_the_context_network_is_that_of_the_architecture_everywhere():
    def weights_of_the_context(ensemble):
        return ensemble._architecture.views(ensemble._weights)["set0"].clone()

    past = [parabola([0.3 + 0.1 * k, 0.5], 40, k) for k in range(4)]
    seen = parabola([0.5, 0.5], 12, 9)
    training = {"steps": 10, "lists": 2, "list_size": 10, "support": 5}
    start = weights_of_the_context(LinearEnsemble(**QUICK).fit(NOTHING))
    ensemble = LinearEnsemble(**QUICK, training=training).meta_fit(past)
    learnt = weights_of_the_context(ensemble.fit(NOTHING))
    tuned = weights_of_the_context(ensemble.fit(seen))
    assert not torch.equal(start, learnt)
    assert not torch.equal(learnt, tuned)
    items = torch.as_tensor(np.column_stack([seen.X, scaled_ranks(seen.losses)])).float()
    torch.testing.assert_close(ensemble._context[0, 0], items.mean(0) @ tuned)


def test_what_was_learnt_is_on_record(learnt):
    assert learnt.meta_learned and not quick().meta_learned
    assert learnt.record.tasks == [f"parabola {k}" for k in range(8)]
    assert learnt.record.validation == ["parabola 8", "parabola 9"]
    assert learnt.record.steps == 150


@pytest.mark.parametrize(
    "tasks",
    [[], [Task.of(np.ones((3, 5)), [1.0] * 3)], [Task.of(np.ones((2, 5)), [1.0, 2.0])]],
    ids=["none", "constant", "small"],
)
def test_past_tasks_without_an_order_change_nothing(tasks):
    task = parabola([0.7, 0.3], 8, 3)
    ensemble = quick().meta_fit(tasks)
    assert not ensemble.meta_learned and ensemble.record is None
    assert np.array_equal(ensemble.fit(task).scores(X), quick().fit(task).scores(X))


def test_another_width_is_refused(learnt):
    with pytest.raises(OptionError, match=r"meta-learned on configurations of 2 columns.* has 3"):
        learnt.fit(Task.of(np.ones((4, 3)), np.arange(4.0)))
    with pytest.raises(OptionError, match=r"of one width, not \[1, 2\]"):
        quick().meta_fit([parabola([0.5], 5, 0), parabola([0.5, 0.5], 5, 0)])
    with pytest.raises(OptionError, match=r"of one width, not \[1, 2\]"):
        quick().meta_fit([parabola([0.5], 5, 0)], [parabola([0.5, 0.5], 5, 0)])
    with pytest.raises(OptionError, match="without columns"):
        quick().fit(Task.of(np.empty((3, 0)), [1.0, 2.0, 3.0]))


def test_torch_gets_its_threads_back():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        training = MetaTraining(steps=2, lists=1)
        quick(training=training).meta_fit([parabola([0.5, 0.5], 5, 0)]).fit(NOTHING).predict(X)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


# ---------------------------------------------------------------------- files


@pytest.fixture
def saved(learnt, tmp_path):
    path = tmp_path / "models" / "dre.safetensors"
    learnt.save(path, fingerprint="of a space")
    return path


def header(path) -> dict:
    """The JSON that a model file says about itself."""
    raw = path.read_bytes()
    size = int.from_bytes(raw[:8], "little")
    return json.loads(json.loads(raw[8 : 8 + size])["__metadata__"]["rankwise"])


def rewritten(path, **changes) -> None:
    """The same tensors with another header."""
    tensors, _ = read_model(path, "deep ranking ensemble")
    save_file(tensors, path, metadata={"rankwise": json.dumps({**header(path), **changes})})


def test_a_loaded_ensemble_predicts_the_same(learnt, saved):
    loaded = DeepRankingEnsemble.load(saved, fingerprint="of a space")
    assert loaded.record == learnt.record and loaded.meta_learned
    assert loaded.training == learnt.training
    assert loaded.settings == learnt.settings
    for task in (NOTHING, parabola([0.1, 0.9], 9, 3)):
        assert np.array_equal(loaded.fit(task).scores(X), learnt.fit(task).scores(X))
    assert [p.name for p in saved.parent.iterdir()] == [saved.name]


def test_the_space_is_checked_only_if_it_is_given(saved, learnt):
    DeepRankingEnsemble.load(saved)
    with pytest.raises(ModelFileError, match="another search space; learn it again"):
        DeepRankingEnsemble.load(saved, fingerprint="of another space")
    learnt.save(saved)
    assert DeepRankingEnsemble.load(saved, fingerprint="of a space").meta_learned


@pytest.mark.parametrize(
    "options",
    [
        {"epochs": 7, "rate": 0.5, "seed": 3},
        {"fine_tune": False},
        {"loss": "mse", "limit": None},
        {"training": MetaTraining(steps=3)},
    ],
    ids=lambda options: ",".join(options),
)
def test_options_replace_the_saved_ones(saved, options):
    loaded = DeepRankingEnsemble.load(saved, **options)
    assert {name: getattr(loaded, name) for name in options} == options
    check_posterior(loaded.fit(parabola([0.1, 0.9], 6, 3)))


@pytest.mark.parametrize(
    "options",
    [{"members": 4}, {"layers": 3}, {"width": 9}, {"deep_set": 5}, {"deep_set": 0}],
    ids=str,
)
def test_options_of_another_shape_are_refused(saved, options):
    with pytest.raises(ModelFileError, match="another shape than the options say"):
        DeepRankingEnsemble.load(saved, **options)


def test_another_shape_of_the_same_number_of_weights_is_refused(tmp_path):
    shape = {"members": 5, "width": 2, "layers": 1, "deep_set": 0}
    other = {"members": 9, "width": 1}  # 5 (4 * 2 + 1) = 9 (4 * 1 + 1)
    training = MetaTraining(steps=2, lists=1)
    ensemble = DeepRankingEnsemble(**shape, training=training)
    ensemble.meta_fit([parabola([0.5, 0.5], 5, 0)]).save(tmp_path / "model")
    with pytest.raises(ModelFileError, match="shape"):
        DeepRankingEnsemble.load(tmp_path / "model", **other)


def test_an_unknown_saved_setting_of_the_training_is_no_obstacle(saved):
    record = header(saved)["record"]
    tensors, _ = read_model(saved, "deep ranking ensemble")
    record["settings"]["training"]["warp"] = 9
    write_model(saved, "deep ranking ensemble", tensors, record)
    assert DeepRankingEnsemble.load(saved).training.steps == 150


def test_nothing_learnt_is_nothing_to_save(tmp_path):
    for ensemble in (quick(), quick().fit(parabola([0.5, 0.5], 5, 0))):
        with pytest.raises(OptionError, match="nothing to save: call meta_fit first"):
            ensemble.save(tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_a_missing_file(tmp_path):
    with pytest.raises(ModelFileError, match=r"there is no model file .*nowhere"):
        DeepRankingEnsemble.load(tmp_path / "nowhere.safetensors")


@pytest.mark.parametrize("share", [0.0, 0.001, 0.1, 0.5, 0.99])
def test_a_truncated_file(saved, share):
    raw = saved.read_bytes()
    saved.write_bytes(raw[: int(share * len(raw))])
    with pytest.raises(ModelFileError, match=r"damaged .*train and save it again"):
        DeepRankingEnsemble.load(saved)


def test_one_wrong_byte_anywhere_is_noticed(saved, learnt):
    raw = saved.read_bytes()
    start = 8 + int.from_bytes(raw[:8], "little")
    places = [*range(0, start, 3), *range(start, len(raw), 97), len(raw) - 1]
    unnoticed = []
    for place in places:
        damaged = bytearray(raw)
        damaged[place] ^= 1
        saved.write_bytes(damaged)
        try:
            loaded = DeepRankingEnsemble.load(saved, fingerprint="of a space")
        except ModelFileError:
            continue
        except Exception as error:
            unnoticed.append(f"{type(error).__name__} at byte {place}")
        else:  # the last digit of a number may say nothing
            if loaded.record != learnt.record or loaded.settings != learnt.settings:
                near = bytes(damaged[place - 20 : place + 10])
                unnoticed.append(f"nothing at byte {place}: {near!r}")
    assert not unnoticed, f"{len(unnoticed)} of {len(places)}: {unnoticed[:5]}"


def test_a_text_file_and_a_directory(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("learning rates I have known\n" * 20)
    for wrong in (path, tmp_path):
        with pytest.raises(ModelFileError, match="is not a model file, or it is damaged"):
            DeepRankingEnsemble.load(wrong)


@pytest.mark.parametrize("metadata", [None, {"format": "pt"}, {"rankwise": "[1]"}], ids=str)
def test_tensors_of_somebody_else(tmp_path, metadata):
    path = tmp_path / "bert.safetensors"
    save_file({"weights": np.zeros(3)}, path, metadata=metadata)
    with pytest.raises(ModelFileError, match="was not written by rankwise"):
        DeepRankingEnsemble.load(path)


def test_another_format_version(saved):
    rewritten(saved, format=99)
    with pytest.raises(ModelFileError, match=r"has format 99 and this version .* reads format 1"):
        DeepRankingEnsemble.load(saved)


def test_another_kind_of_model(tmp_path):
    path = tmp_path / "gp.safetensors"
    write_model(path, "Gaussian process", {"weights": np.zeros(3)}, {})
    with pytest.raises(ModelFileError, match="holds a Gaussian process, not a deep ranking"):
        DeepRankingEnsemble.load(path)


def test_a_header_without_its_parts_is_refused(saved):
    tensors, _ = read_model(saved, "deep ranking ensemble")
    save_file(tensors, saved, metadata={"rankwise": json.dumps({"format": 1})})
    with pytest.raises(ModelFileError):
        DeepRankingEnsemble.load(saved)


def test_saving_replaces_an_older_file(learnt, saved):
    old = saved.read_bytes()
    learnt.save(saved, fingerprint="of another space")
    assert saved.read_bytes() != old
    DeepRankingEnsemble.load(saved, fingerprint="of another space")


def no_space_left(*args, **options):
    raise OSError(28, "No space left on device")


def test_a_failure_to_write_leaves_the_old_file_and_nothing_else(learnt, saved, monkeypatch):
    old = saved.read_bytes()

    write = Path.write_bytes

    def half_written(path, content):
        write(path, content[: len(content) // 2])
        no_space_left()

    monkeypatch.setattr(Path, "write_bytes", half_written)
    with pytest.raises(ModelFileError, match=r"cannot write the model to .*No space left"):
        learnt.save(saved)
    assert saved.read_bytes() == old
    assert [p.name for p in saved.parent.iterdir()] == [saved.name]


def test_a_failure_within_safetensors_is_a_model_file_error_too(learnt, saved, monkeypatch):
    from safetensors import SafetensorError

    def failing(tensors, metadata):
        raise SafetensorError("Error while serializing: I/O error: No space left on device")

    monkeypatch.setattr(files, "save", failing)
    with pytest.raises(ModelFileError, match=r"cannot write the model to .*No space left"):
        learnt.save(saved)
    assert [p.name for p in saved.parent.iterdir()] == [saved.name]


def test_an_interruption_while_writing_leaves_nothing_behind(learnt, saved, monkeypatch):
    write = Path.write_bytes

    def interrupted(path, content):
        write(path, content[: len(content) // 2])
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "write_bytes", interrupted)
    with pytest.raises(KeyboardInterrupt):
        learnt.save(saved)
    assert [p.name for p in saved.parent.iterdir()] == [saved.name]


def test_a_path_that_cannot_be_is_refused(learnt, saved):
    with pytest.raises(ModelFileError, match="cannot write the model to"):
        learnt.save(saved / "below-a-file.safetensors")
    with pytest.raises(ModelFileError, match="cannot write the model to"):
        learnt.save(saved.parent)  # a directory
    assert [p.name for p in saved.parent.iterdir()] == [saved.name]
    assert not [p for p in saved.parent.parent.iterdir() if p != saved.parent]
