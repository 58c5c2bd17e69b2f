"""Epochs of ConvNetClassifier: the best one, patience, going on, and who is told."""

from __future__ import annotations

import numpy as np
import optuna
import pytest
import torch
from sklearn.metrics import log_loss

from rankwise.networks import ConvNetClassifier, Dense
from rankwise.networks.training import Batches, Rows


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 5))
    return X, (X[:, 0] + 0.5 * rng.normal(size=120) > 0).astype(int)


def network(**options):
    return ConvNetClassifier((Dense(8),), **{"epochs": 6, "random_state": 0, **options})


def weights(estimator):
    return torch.cat([p.detach().flatten().clone() for p in estimator.module_.parameters()])


def scripted(scores):
    """A metric that says what it was told to say, epoch by epoch."""
    left = iter(scores)
    return lambda truth, predicted: next(left)


@pytest.mark.parametrize("restore", [True, False])
def test_early_stopping_goes_back_to_the_best_epoch(rows, restore):
    seen = []
    fitted = network(
        metric=scripted([0.1, 0.5, 0.3, 0.5, 0.2]),
        validation=0.2,
        patience=2,
        restore_best=restore,
        on_epoch=lambda epoch, score, net: seen.append((epoch, score, weights(net))),
    ).fit(*rows)
    assert [(epoch, score) for epoch, score, _ in seen] == [(1, 0.1), (2, 0.5), (3, 0.3), (4, 0.5)]
    assert (fitted.epochs_, fitted.best_epoch_, fitted.best_score_) == (4, 2, 0.5)
    assert torch.equal(weights(fitted), seen[1 if restore else 3][2])
    assert not torch.equal(seen[1][2], seen[3][2])


def test_a_score_that_is_not_a_number_is_not_the_best(rows):
    scores = [np.nan, 0.2, np.nan, 0.1]
    fitted = network(metric=scripted(scores), validation=0.2, epochs=4).fit(*rows)
    assert (fitted.best_epoch_, fitted.best_score_) == (2, 0.2)


def test_without_validation_the_last_epoch_stays(rows):
    seen = []
    fitted = network(on_epoch=lambda epoch, score, net: seen.append((score, weights(net))))
    fitted.fit(*rows)
    assert fitted.best_epoch_ == fitted.epochs_ == 6 and fitted.best_score_ is None
    assert [score for score, _ in seen] == [None] * 6
    assert torch.equal(weights(fitted), seen[-1][1])
    assert fitted.history_[0]["validation_loss"] is None


def test_metrics_by_name_are_those_of_scikit_learn(rows):
    X, y = rows
    found = []

    def check(epoch, score, net):
        found.append(log_loss(y[:30], net.predict_proba(X[:30])))
        np.testing.assert_allclose(score, -found[-1], rtol=1e-5)
        np.testing.assert_allclose(net.history_[-1]["validation_loss"], found[-1], rtol=1e-5)

    given = (X[:30], y[:30])
    network(metric="neg_log_loss", validation=given, on_epoch=check).fit(X[30:], y[30:])
    assert len(found) == 6


def test_training_goes_on_as_if_it_had_not_ended(rows):
    options = {"dropout": 0.3, "validation": 0.2, "momentum": 0.8}
    whole = network(**options).fit(*rows)
    parts = network(**options)
    for epochs in (1, 3, 2):
        parts.partial_fit(*rows, epochs=epochs)
    assert parts.epochs_ == 6 and torch.equal(weights(parts), weights(whole))
    without_times = [[{**r, "seconds": 0} for r in n.history_] for n in (whole, parts)]
    assert without_times[0] == without_times[1]
    after = network(**{**options, "epochs": 4}).fit(*rows).partial_fit(*rows, epochs=2)
    assert torch.equal(weights(after), weights(whole))


def test_going_on_starts_from_the_last_epoch_not_from_the_best(rows):
    options = {"validation": 0.2}
    scores = [0.5, 0.4, 0.3, 0.2, 0.1, 0.0]
    whole = network(**options, restore_best=False, metric=scripted(scores)).fit(*rows)
    last = []
    parts = network(
        **options,
        epochs=3,
        metric=scripted(scores),
        on_epoch=lambda epoch, score, net: last.append(weights(net)),
    ).fit(*rows)
    assert parts.best_epoch_ == 1 and torch.equal(weights(parts), last[0])
    parts.partial_fit(*rows, epochs=3)
    assert torch.equal(last[-1], weights(whole)) and torch.equal(weights(parts), last[0])


def test_classes_that_come_later(rows):
    X, y = rows
    parts = network().partial_fit(X, y, classes=[0, 1, 2])
    parts.partial_fit(X[:30], np.full(30, 2), epochs=20)
    assert parts.predict_proba(X).shape == (120, 3)
    assert (parts.predict(X) == 2).any()


def test_a_callback_ends_training_or_what_it_raises_goes_through(rows):
    ended = network(on_epoch=lambda epoch, score, net: epoch == 2).fit(*rows)
    assert ended.epochs_ == 2

    study = optuna.create_study()
    trial = study.ask()

    def report(epoch, score, net):
        trial.report(score, epoch)
        if epoch == 3:
            raise optuna.TrialPruned

    with pytest.raises(optuna.TrialPruned):
        network(validation=0.2, on_epoch=report).fit(*rows)
    assert list(study.trials[0].intermediate_values) == [1, 2, 3]

    def interrupt(epoch, score, net):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        network(on_epoch=interrupt).fit(*rows)


def test_batches_are_told_and_end_training(rows):
    told = []
    network(batch_size=50, epochs=2, on_batch=lambda *said: told.append(said[:2])).fit(*rows)
    assert told == [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (2, 3)]
    ended = network(on_batch=lambda epoch, batch, loss, net: loss < 0.5, epochs=200).fit(*rows)
    assert ended.epochs_ < 200


@pytest.mark.parametrize(("n", "sizes"), [(9, [4, 5]), (8, [4, 4]), (10, [4, 4, 2]), (1, [1])])
def test_batches_hold_every_row_once(n, sizes):
    data = Rows(torch.arange(n)[:, None], torch.arange(n))
    for shuffle in (False, True):
        batches = list(Batches(data, 4, shuffle))
        assert [len(X) for X, _ in batches] == sizes
        assert sorted(torch.cat([y for _, y in batches]).tolist()) == list(range(n))
        assert all((X[:, 0] == y).all() for X, y in batches)
