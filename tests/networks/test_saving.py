"""Output activations, input dropout, schedules, and files of ConvNetClassifier."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from safetensors import safe_open
from torch import nn

from rankwise.errors import ModelFileError, OptionError, UnknownNameError
from rankwise.networks import Conv, ConvNetClassifier, Dense
from rankwise.networks.modules import OneVersusRest, probabilities


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 6))
    return X, np.array(["low", "middle", "high"])[np.digitize(X[:, 0], (-0.5, 0.5))]


SMALL = (Dense(8),)


def network(layers=SMALL, **options):
    return ConvNetClassifier(layers, **{"epochs": 4, "random_state": 0, **options})


# ---------------------------------------------------------------------- output and inputs


def test_a_sigmoid_output_is_one_question_per_class():
    rng = np.random.default_rng(0)
    logits, y = torch.as_tensor(rng.normal(size=(5, 3))), torch.tensor([0, 2, 1, 1, 0])
    single = 1 / (1 + np.exp(-logits.numpy()))
    truth = np.eye(3)[y.numpy()]
    expected = -(truth * np.log(single) + (1 - truth) * np.log(1 - single)).sum() / 5
    assert float(OneVersusRest()(logits, y)) == pytest.approx(expected)
    shares = probabilities(logits, "sigmoid").numpy()
    np.testing.assert_allclose(shares, single / single.sum(axis=1, keepdims=True))
    far = probabilities(torch.full((1, 3), -1000.0), "sigmoid")  # every sigmoid is 0
    np.testing.assert_allclose(far.numpy(), 1 / 3)


def test_a_network_learns_with_a_sigmoid_output(rows):
    fitted = network(output="sigmoid", epochs=40, batch_size=16, validation=0.2).fit(*rows)
    assert fitted.score(*rows) > 0.8 and fitted.best_score_ > 0.7
    np.testing.assert_allclose(fitted.predict_proba(rows[0]).sum(axis=1), 1.0)


def test_input_dropout_is_for_training_only(rows):
    fitted = network(input_dropout=0.5).fit(*rows)
    first = next(fitted.module_.children())
    assert isinstance(first, nn.Dropout) and first.p == 0.5
    assert (fitted.predict_proba(rows[0]) == fitted.predict_proba(rows[0])).all()
    assert (fitted.predict_proba(rows[0]) != network().fit(*rows).predict_proba(rows[0])).any()


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"input_dropout": 1.0}, "dropout"),
        ({"output": "relu"}, "output"),
        ({"schedule": "cosinus"}, "schedule"),
        ({"input_dropout": 0.2, "module": nn.Linear(6, 3)}, "own module"),
    ],
)
def test_wrong_options_are_refused(rows, options, word):
    with pytest.raises((OptionError, UnknownNameError), match=word):
        network(**options).fit(*rows)


# ---------------------------------------------------------------------- schedules


def rates(rows, **options):
    seen = []

    def on_batch(epoch, batch, loss, net):
        if batch == 1:
            seen.append(net.net_.optimizer_.param_groups[0]["lr"])

    fitted = network(learning_rate=0.1, on_batch=on_batch, **options)
    fitted.fit(*rows)
    fitted.partial_fit(*rows, epochs=1)
    return seen


@pytest.mark.parametrize(
    ("schedule", "factors"),
    [
        ("constant", [1, 1, 1, 1, 1]),
        ("cosine", [1, 0.5 + math.sqrt(0.125), 0.5, *[0.5 - math.sqrt(0.125)] * 2]),
        ("linear", [1, 0.75, 0.5, 0.25, 0.25]),
        ("step", [1, 1, 0.1, 0.01, 0.01]),
        (lambda epoch, epochs: epoch / epochs, [0.25, 0.5, 0.75, 1, 1]),
    ],
)
def test_a_schedule_sets_the_learning_rate(rows, schedule, factors):
    np.testing.assert_allclose(rates(rows, schedule=schedule), 0.1 * np.array(factors))


def test_a_training_in_two_parts_follows_the_same_schedule(rows):
    at_once = network(schedule="cosine").fit(*rows)
    in_parts = network(schedule="cosine")
    for _ in range(4):
        in_parts.partial_fit(*rows)
    assert (at_once.predict_proba(rows[0]) == in_parts.predict_proba(rows[0])).all()


# ---------------------------------------------------------------------- files


def test_a_network_from_a_file_is_the_same(rows, tmp_path):
    path = tmp_path / "network.safetensors"
    fitted = network(
        (Dense(8, "tanh", dropout=0.2), Dense(5)),
        batch_norm=True,
        validation=0.25,
        output="sigmoid",
        on_epoch=lambda epoch, score, net: None,
    ).fit(*rows)
    fitted.save(path)
    found = ConvNetClassifier.load(path)
    assert (found.predict_proba(rows[0]) == fitted.predict_proba(rows[0])).all()
    assert (found.predict(rows[0]) == fitted.predict(rows[0])).all()
    assert found.layers == fitted.layers and found.output == "sigmoid"
    assert found.on_epoch is None  # a function is not written
    assert found.history_ == fitted.history_ and found.best_score_ == fitted.best_score_
    assert found.n_parameters_ == fitted.n_parameters_
    with pytest.raises(OptionError, match="initial"):
        found.partial_fit(*rows)
    larger = network((Dense(9, "tanh"), Dense(5)), epochs=1).fit(*rows, initial=found)
    assert larger.morphism_ is not None


def test_images_and_numbers_as_labels_come_back(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 6, 6)), rng.integers(3, size=60) * 10
    fitted = network((Conv(3, (2, 3), pool="max"), Dense(4))).fit(X, y)
    fitted.save(tmp_path / "n")
    found = ConvNetClassifier.load(tmp_path / "n")
    assert (found.predict_proba(X) == fitted.predict_proba(X)).all()
    assert found.predict(X).dtype == y.dtype and found.layers == fitted.layers


def test_names_of_columns_are_kept(rows, tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(rows[0], columns=list("abcdef"))
    network().fit(frame, rows[1]).save(tmp_path / "n")
    found = ConvNetClassifier.load(tmp_path / "n")
    assert list(found.feature_names_in_) == list("abcdef")
    found.predict(frame)
    with pytest.raises(ValueError, match="feature names"):
        found.predict(frame.rename(columns={"a": "z"}))


def test_an_own_module_is_given_again(rows, tmp_path):
    module = nn.Linear(6, 3)
    fitted = network(module=module).fit(*rows)
    fitted.save(tmp_path / "n")
    with pytest.raises(OptionError, match="same module"):
        ConvNetClassifier.load(tmp_path / "n")
    found = ConvNetClassifier.load(tmp_path / "n", module=nn.Linear(6, 3))
    assert (found.predict_proba(rows[0]) == fitted.predict_proba(rows[0])).all()
    with pytest.raises(ModelFileError, match="damaged"):
        ConvNetClassifier.load(tmp_path / "n", module=nn.Linear(5, 3))


def test_a_file_has_no_pickle_and_wrong_ones_are_refused(rows, tmp_path):
    path = tmp_path / "n.safetensors"
    network().fit(*rows).save(path)
    with safe_open(path, framework="np") as file:
        assert json.loads(file.metadata()["rankwise"])["kind"] == "network classifier"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match="damaged"):
        ConvNetClassifier.load(path)
    with pytest.raises(ModelFileError, match="no model file"):
        ConvNetClassifier.load(tmp_path / "none")
