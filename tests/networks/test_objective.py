"""Tuning networks: what trains them, reports to pruners and hands down weights."""

from __future__ import annotations

import pickle

import numpy as np
import optuna
import pytest
from optuna.trial import TrialState

import rankwise
from rankwise.errors import GeometryError, OptionError
from rankwise.networks import (
    Conv,
    ConvNetClassifier,
    NetworkObjective,
    all_convolutional,
    convnet_space,
    layer_sizes,
    network_of,
)

SPACE = convnet_space((6, 6), max_layers=2, batch_sizes=(16, 32))


@pytest.fixture(scope="module")
def stripes():
    """Images (90, 6, 6) of two kinds: horizontal and vertical stripes, with noise."""
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=90)
    image = np.tile([0.0, 1.0], (6, 3))
    X = np.where(y[:, None, None] == 1, image, image.T) + 0.3 * rng.normal(size=(90, 6, 6))
    return X, y


def objective(stripes, **others) -> NetworkObjective:
    settings = {"validation": 0.3, "epochs": 2, "random_state": 0, **others}
    return NetworkObjective(*stripes, **settings)


def test_the_loss_is_that_of_the_network_of_the_configuration(stripes):
    configuration = all_convolutional(SPACE, 1)
    network = ConvNetClassifier.from_configuration(
        configuration, validation=0.3, epochs=2, random_state=0
    )
    expected = 1.0 - network.fit(*stripes).best_score_
    assert objective(stripes)(configuration) == expected


def test_networks_must_be_compared_on_rows_apart(stripes):
    with pytest.raises(OptionError, match="validation"):
        NetworkObjective(*stripes)


@pytest.mark.parametrize("buildable", [True, False])
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_networks_of_convolutions_for_designs_can_be_built(buildable, layers):
    space = convnet_space((28, 28), buildable=buildable)
    network = network_of(all_convolutional(space, layers))["layers"]
    assert len(network) == layers and all(isinstance(layer, Conv) for layer in network)
    layer_sizes(network, (28, 28))


def test_a_growing_search_begins_each_level_with_convolutions(stripes):
    given = [all_convolutional(SPACE, k) for k in (1, 2)]
    found = rankwise.minimize(
        objective(stripes),
        SPACE,
        trials=6,
        seed=0,
        grow=rankwise.Growing("layers", least=1, given=given),
    )
    assert found.trials[2].configuration == given[1]
    assert {t.status for t in found.trials} == {"ok"}


def test_a_search_goes_on_after_networks_that_cannot_be_trained(stripes):
    naive = convnet_space((6, 6), max_layers=2, buildable=False, batch_sizes=(16, 32))
    with pytest.warns(UserWarning, match="GeometryError"):
        found = rankwise.minimize(
            objective(stripes, epochs=1), naive, trials=12, seed=0, method="random"
        )
    failed = [t for t in found.trials if t.status == "failed"]
    assert failed and len(failed) < 12
    assert all("layer" in t.error for t in failed)
    with pytest.raises(GeometryError):
        objective(stripes)(failed[0].configuration)


def test_weights_are_handed_down_to_networks_that_grow_from_others(stripes):
    heirs = objective(stripes, inherit=True)
    heirs(all_convolutional(SPACE, 1))
    deeper = ConvNetClassifier.from_configuration(all_convolutional(SPACE, 2))
    assert len(heirs.forebear(deeper).layers) == 1
    heirs(all_convolutional(SPACE, 2))
    shallow = ConvNetClassifier.from_configuration(all_convolutional(SPACE, 1))
    assert len(heirs.forebear(shallow).layers) == 1
    dense = ConvNetClassifier()
    assert heirs.forebear(dense) is None
    assert pickle.loads(pickle.dumps(heirs)).forebear(deeper) is None


def test_an_inherited_network_begins_better_than_a_new_one(stripes):
    first = {"epochs": 6}
    heirs = objective(stripes, inherit=True, **first)
    configuration = all_convolutional(SPACE, 1)
    heirs(configuration)
    scores = []
    for settings in ({"initial": heirs.forebear(ConvNetClassifier((Conv(),)))}, {}):
        network = ConvNetClassifier.from_configuration(
            configuration, validation=0.3, epochs=1, random_state=1
        )
        scores.append(network.fit(*stripes, **settings).history_[0]["train_loss"])
    assert scores[0] < scores[1]


def test_pruners_end_trainings_and_the_sampler_learns_from_them(stripes):
    study = optuna.create_study(
        sampler=rankwise.RankwiseSampler(seed=0),
        pruner=optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=2),
    )
    study.optimize(objective(stripes, epochs=4).trial_objective(SPACE), n_trials=12)
    pruned = [t for t in study.trials if t.state == TrialState.PRUNED and t.intermediate_values]
    assert pruned
    assert all(len(t.intermediate_values) < 4 for t in pruned)
    assert study.best_value < 0.5


def test_minimize_reports_epochs_and_its_pruner_ends_trainings(stripes):
    pruner = optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=2)
    result = rankwise.minimize(
        objective(stripes, epochs=3), SPACE, trials=5, method="random", seed=0, pruner=pruner
    )
    curves = [t.curve for t in result.trials if t.status in ("ok", "pruned")]
    assert {len(curve) for curve in curves} > {3} and max(map(max, curves)) == 3
    assert result.best_trial.value == pytest.approx(min(result.best_trial.curve.values()))


def test_a_study_goes_on_after_networks_that_cannot_be_trained(stripes):
    naive = convnet_space((6, 6), max_layers=2, buildable=False, batch_sizes=(16, 32))
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    study.optimize(objective(stripes, epochs=1).trial_objective(naive), n_trials=12)
    failed = [t for t in study.trials if "error" in t.user_attrs]
    assert failed and all("GeometryError" in t.user_attrs["error"] for t in failed)
    assert len(failed) < 12


def test_a_study_that_maximizes_is_refused(stripes):
    naive = convnet_space((6, 6), max_layers=2, buildable=False, batch_sizes=(16, 32))
    for seed in range(3):  # also where the first network cannot be built
        sampler = optuna.samplers.RandomSampler(seed=seed)
        study = optuna.create_study(direction="maximize", sampler=sampler)
        with pytest.raises(ValueError, match="minimize"):
            study.optimize(objective(stripes).trial_objective(naive), n_trials=1)


def test_the_users_own_report_is_called_beside_the_pruners(stripes):
    epochs = []
    own = objective(stripes, on_epoch=lambda epoch, score, network: epochs.append(epoch))
    study = optuna.create_study(pruner=optuna.pruners.NopPruner())
    study.enqueue_trial(all_convolutional(SPACE, 1))
    study.optimize(own.trial_objective(SPACE), n_trials=1)
    assert epochs == [1, 2] and len(study.trials[0].intermediate_values) == 2


def test_training_that_ends_within_its_first_epoch_has_no_loss(stripes):
    ended = objective(stripes, on_batch=lambda *_: True)
    assert np.isnan(ended(all_convolutional(SPACE, 1)))


def test_log_loss_knows_classes_without_a_validation_row(stripes):
    X, y = stripes
    y = np.where(np.arange(len(y)) < 2, 2, y)
    rows = {"validation": (X[10:40], y[10:40]), "metric": "neg_log_loss", "epochs": 1}
    assert NetworkObjective(X, y, random_state=0, **rows)(all_convolutional(SPACE, 1)) > 1.0
    with pytest.raises(OptionError, match="2 of 3 classes"):
        NetworkObjective(X, y, **{**rows, "metric": "roc_auc_ovr"})(all_convolutional(SPACE, 1))


@pytest.mark.filterwarnings("error")
def test_a_loss_of_probabilities_can_be_the_metric(stripes):
    loss = objective(stripes, metric="neg_log_loss")(all_convolutional(SPACE, 1))
    assert loss > 1.0  # one plus a log loss
