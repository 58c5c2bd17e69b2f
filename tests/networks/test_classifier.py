"""ConvNetClassifier: data, probabilities, seeds, own modules, and what goes wrong."""

from __future__ import annotations

import pickle
import sys

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score
from torch import nn

import rankwise
from rankwise.errors import GeometryError, NetworkTooLarge, OptionError, TrainingDiverged
from rankwise.networks import Conv, ConvNetClassifier, Dense
from rankwise.networks.images import kept_apart

SMALL = (Conv(6, 3, padding="same", pool="max"), Dense(20))


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:400].reshape(-1, 8, 8), y[:400]


def network(layers=SMALL, **options):
    return ConvNetClassifier(layers, **{"epochs": 3, "random_state": 0, **options})


def test_it_learns_and_says_how(digits):
    X, y = digits
    fitted = network(epochs=15, validation=0.2, batch_size=32).fit(X[:300], y[:300])
    assert fitted.score(X[300:], y[300:]) > 0.8
    probabilities = fitted.predict_proba(X[300:])
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    assert (fitted.predict(X[300:]) == probabilities.argmax(axis=1)).all()
    assert [row["epoch"] for row in fitted.history_] == list(range(1, 16))
    assert set(fitted.history_[0]) == {
        "epoch",
        "train_loss",
        "validation_loss",
        "validation_score",
        "seconds",
    }
    scores = [row["validation_score"] for row in fitted.history_]
    assert fitted.epochs_ == 15 and fitted.best_epoch_ == 1 + int(np.argmax(scores))
    assert fitted.best_score_ == max(scores)
    # 3 x 3 filters of one channel; 4 x 4 x 6 cells to 20 units; 10 classes.
    assert fitted.n_parameters_ == 6 * 10 + (4 * 4 * 6 + 1) * 20 + 21 * 10


def test_images_of_every_form_are_the_same(digits):
    X, y = digits
    expected = network().fit(X, y).predict_proba(X)
    assert (network().fit(X[..., None], y).predict_proba(X[..., None]) == expected).all()
    flat = X.reshape(len(X), -1)
    assert (network(input_shape=(8, 8)).fit(flat, y).predict_proba(flat) == expected).all()
    bright = (X * 10).astype(np.uint8)  # scale does not matter
    np.testing.assert_allclose(network().fit(bright, y).predict_proba(bright), expected, atol=1e-3)


def test_channels_come_last(digits):
    X, y = digits
    colour = np.stack([X, 0 * X + 5, -X], axis=-1)
    fitted = network().fit(colour, y)
    assert fitted.input_shape_ == (8, 8, 3)
    red = torch.tensor(((X - X.mean()) / X.std()).astype(np.float32))
    given = fitted._tensor(colour.astype(np.float32))
    torch.testing.assert_close(given[:, 0], red)
    assert (given[:, 1] == 0).all()
    torch.testing.assert_close(given[:, 2], -red)


def test_two_classes_and_texts_as_labels(digits):
    X, y = digits
    labels = np.where(y % 2, "odd", "even")
    fitted = network(metric="roc_auc", validation=0.2).fit(X, labels)
    assert list(fitted.classes_) == ["even", "odd"]
    assert set(fitted.predict(X)) <= {"even", "odd"}
    assert fitted.predict_proba(X).shape == (400, 2) and fitted.best_score_ > 0.5


def test_a_seed_gives_the_same_network_and_leaves_the_world_alone(digits):
    X, y = digits
    of_numpy = np.random.mtrand._rand  # what `np.random.seed` is about
    before = torch.get_rng_state(), of_numpy.get_state()[1].copy(), torch.get_num_threads()
    options = {"dropout": 0.3, "validation": 0.2}
    first, again = (network(**options).fit(X, y).predict_proba(X) for _ in range(2))
    assert (first == again).all()
    assert (network(**{**options, "random_state": 1}).fit(X, y).predict_proba(X) != first).any()
    network(random_state=None).fit(X, y)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert (of_numpy.get_state()[1] == before[1]).all()
    assert torch.get_num_threads() == before[2]


def test_layers_may_differ_from_the_network():
    layers = (Conv(4, dropout=0.2, batch_norm=False), Dense(5), Dense(5, dropout=0.0))
    fitted = network(layers, dropout=0.5, batch_norm=True, epochs=1)
    fitted.fit(np.random.default_rng(0).random((65, 6, 6)), np.arange(65) % 2)  # 65 = 64 + 1
    blocks = fitted.module_.blocks
    assert [getattr(block.dropout, "p", 0.0) for block in blocks] == [0.2, 0.5, 0.0]
    kinds = [nn.Identity, nn.BatchNorm1d, nn.BatchNorm1d]
    assert [type(block.norm) for block in blocks] == kinds


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw", "rmsprop", torch.optim.Adagrad])
def test_optimizers(digits, optimizer):
    X, y = digits
    fitted = network(optimizer=optimizer, learning_rate=0.01).fit(X, y)
    assert fitted.history_[-1]["train_loss"] < fitted.history_[0]["train_loss"]


@pytest.mark.parametrize("initializer", ["xavier", "kaiming", "normal", "orthogonal"])
def test_initializers(digits, initializer):
    X, y = digits
    fitted = network(initializer=initializer, learning_rate=0.0, epochs=1).fit(X, y)
    assert all((block.weights.bias == 0).all() for block in fitted.module_.blocks)
    spread = {"xavier": (2 / 116) ** 0.5, "kaiming": (2 / 96) ** 0.5, "normal": 0.05}
    found = float(fitted.module_.blocks[1].weights.weight.detach().std())
    assert found == pytest.approx(spread.get(initializer, (1 / 96) ** 0.5), rel=0.1)


def test_an_initializer_of_ones_own(digits):
    X, y = digits
    fitted = network(initializer=nn.init.ones_, learning_rate=0.0, epochs=1).fit(X, y)
    assert (fitted.module_.output.weight == 1).all()


class Linear(nn.Module):
    """A network of a user, for images."""

    def __init__(self, input_shape=(8, 8, 1), n_classes=10):
        super().__init__()
        self.linear = nn.Linear(int(np.prod(input_shape)), n_classes)

    def forward(self, images):
        return self.linear(images.flatten(1))


def test_a_module_of_ones_own(digits):
    X, y = digits
    made = network(module=Linear, epochs=5).fit(X, y)
    assert isinstance(made.module_, Linear) and made.score(X, y) > 0.8
    given = Linear()
    before = given.linear.weight.detach().clone()
    copied = network(module=given, learning_rate=0.0, epochs=1).fit(X, y)
    assert copied.module_ is not given and torch.equal(copied.module_.linear.weight, before)
    assert torch.equal(given.linear.weight, before)


def test_pickles_and_clones(digits):
    X, y = digits
    fitted = network(validation=(X[:50], y[:50])).fit(X, y)
    again = pickle.loads(pickle.dumps(fitted))
    assert (again.predict_proba(X) == fitted.predict_proba(X)).all()
    assert (clone(fitted).fit(X, y).predict_proba(X) == fitted.predict_proba(X)).all()
    assert cross_val_score(network(), X, y, cv=2).shape == (2,)


# ---------------------------------------------------------------- what goes wrong


def test_impossible_geometry_is_found_before_training(digits):
    X, y = digits
    steps = []
    layers = (Conv(4, 3, stride=3), Conv(4, 5), Dense(10))
    estimator = network(layers, on_batch=lambda *_: steps.append(1))
    with pytest.raises(GeometryError, match="layer 2: a kernel of 5 x 5"):
        estimator.fit(X, y)
    assert not steps
    with pytest.raises(GeometryError, match="do not fit input_shape"):
        network(input_shape=(4, 8)).fit(X, y)
    with pytest.raises(GeometryError, match="input_shape"):
        network().fit(X.reshape(len(X), -1), y)


def test_a_network_that_diverges(digits):
    X, y = digits
    with pytest.raises(TrainingDiverged, match=r"at batch \d+ of epoch \d"):
        network(learning_rate=1e20).fit(X, y)
    # One step is too many, and no later loss tells.
    once = {"learning_rate": 3e38, "epochs": 1, "batch_size": 400}
    with pytest.raises(TrainingDiverged, match="weights"):
        network(standardize=False, **once).fit(1e6 * X, y)
    with pytest.raises(TrainingDiverged, match="outputs are not finite after epoch 1"):
        network(validation=0.1, **once).fit(X, y)
    with pytest.raises(TrainingDiverged, match="outputs"):
        network(**once).fit(X, y).predict(X)


class Greedy(Linear):
    def forward(self, images):
        if self.training:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to ...")
        return super().forward(images)


def test_a_search_records_failures_and_goes_on(digits):
    X, y = digits
    with pytest.raises(NetworkTooLarge):
        network(module=Greedy).fit(X, y)

    def error(configuration):
        options = {
            "fine": {},
            "diverges": {"learning_rate": 1e20},
            "impossible": {"layers": (Conv(4, 9),)},
            "too large": {"module": Greedy},
        }[configuration["case"]]
        return 1.0 - network(**{"epochs": 1, **options}).fit(X, y).score(X, y)

    cases = ["fine", "diverges", "impossible", "too large"]
    with pytest.warns(rankwise.errors.RunWarning):
        result = rankwise.minimize(error, {"case": cases}, trials=4, method="grid", seed=0)
    failed = {t.configuration["case"]: t.error.split(":")[0] for t in result.trials if t.error}
    assert failed == {
        "diverges": "TrainingDiverged",
        "impossible": "GeometryError",
        "too large": "NetworkTooLarge",
    }
    assert result.best_configuration == {"case": "fine"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"patience": 2}, "needs the option validation"),
        ({"dropout": 1.0}, "dropout"),
        ({"batch_size": 0}, "batch_size"),
        ({"batch_size": 1, "batch_norm": True}, "at least 2"),
        ({"learning_rate": -1.0}, "learning_rate"),
        ({"optimizer": "adm"}, "Did you mean 'adam'"),
        ({"initializer": "he"}, "xavier"),
        ({"validation": 1.5}, "validation share"),
        ({"validation": 0.2, "metric": "acuracy"}, "acuracy"),
        ({"threads": 0}, "threads"),
    ],
)
def test_options_that_make_no_sense(digits, options, message):
    X, y = digits
    with pytest.raises(ValueError, match=message):
        network(**options).fit(X, y)


def test_labels_that_are_not_known(digits):
    X, y = digits
    with pytest.raises(OptionError, match="is not one of"):
        network(validation=(X, y + 1)).fit(X, y)
    fitted = network().fit(X, y)
    with pytest.raises(GeometryError, match=r"\(8, 8\), not \(8, 4\)"):
        fitted.predict(X[:, :, :4])


def test_skorch_is_an_extra(digits, monkeypatch):
    monkeypatch.setitem(sys.modules, "skorch", None)
    for name in ("training", "callbacks"):
        monkeypatch.delitem(sys.modules, f"rankwise.networks.{name}", raising=False)
        monkeypatch.delattr(rankwise.networks, name, raising=False)
    with pytest.raises(OptionError, match=r"rankwise\[neural\]"):
        network().fit(*digits)


def test_rows_that_are_kept_apart():
    y = np.repeat([0, 1, 2], [100, 40, 1])
    kept = kept_apart(y, 0.2, seed=0)
    assert (np.bincount(y[kept], minlength=3) == [20, 8, 0]).all()
    assert (kept_apart(y, 0.2, seed=0) == kept).all()
    assert len(kept_apart(np.array([0, 0, 1]), 0.01, seed=0)) == 1
    with pytest.raises(OptionError, match="no row can be held out"):
        kept_apart(np.array([0, 1, 2]), 0.5, seed=0)


def test_the_best_epoch_is_restored_if_training_ends_within_the_next(digits):
    X, y = digits
    network = ConvNetClassifier(
        (Dense(20),),
        epochs=4,
        validation=0.3,
        random_state=0,
        on_batch=lambda epoch, batch, loss, network: epoch == 4 and batch == 2,
    ).fit(X, y)
    assert network.epochs_ == 3
    plain = ConvNetClassifier((Dense(20),), epochs=3, validation=0.3, random_state=0).fit(X, y)
    assert np.array_equal(network.predict_proba(X), plain.predict_proba(X))


def test_a_fit_that_fails_leaves_nothing_of_the_last_one(digits):
    X, y = digits
    network = ConvNetClassifier((Dense(5),), epochs=1, random_state=0).fit(X, y)
    with pytest.raises(GeometryError):
        network.set_params(layers=(Conv(5, kernel=50),)).fit(X.reshape(-1, 8, 8), y)
    with pytest.raises(NotFittedError):
        network.predict(X)


@pytest.mark.parametrize("layers", [["dense"], Dense(5), None])
def test_layers_that_are_none_are_refused(digits, layers):
    with pytest.raises(OptionError, match="Dense and Conv"):
        ConvNetClassifier(layers).fit(*digits)
