"""Our runner and HPO-B's handler give the same curves for the same method and seed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from support import ROOT

from rankwise.bench import hpob_method, load, run
from rankwise.bench.cells import Cell
from rankwise.bench.protocol import Chooser
from rankwise.errors import OptionError, UnknownNameError

SHARED = ROOT.parent / "shared" / "data"
TRIALS = 12


def handled(method, X, y, rows, trials):
    """The protocol of HPO-B's handler: best normalised accuracy, before and after each trial."""
    y = (y - y.min()) / (y.max() - y.min())
    evaluated, pending = list(rows), [k for k in range(len(X)) if k not in rows]
    history = [y[evaluated].max()]
    for _ in range(trials):
        choice = method.observe_and_suggest(X[evaluated], y[evaluated], X[pending])
        evaluated.append(pending.pop(choice))
        history.append(y[evaluated].max())
        if history[-1] == 1.0:
            break
    return np.array(history + history[-1:] * (trials + 1 - len(history)))


def write_hpob(folder: Path, *, spread: float = 1.0) -> dict:
    """Twelve small data sets in HPO-B's layout; returns what the files hold."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    X = rng.random((60, 3)) * spread - (spread - 1) / 2
    parts, first = {}, {}
    for part, names in (("train", "abcdefgh"), ("validation", "ij"), ("test", "kl")):
        parts[part] = {}
        for name in names:
            centre = rng.normal(0.5, 0.1, 3)
            y = 0.9 - ((X - centre) ** 2).sum(axis=1) + rng.normal(0, 0.01, 60)
            parts[part][name] = {"X": X.tolist(), "y": y[:, None].tolist()}
        (folder / f"meta-{part}-dataset.json").write_text(json.dumps({"77": parts[part]}))
    for name in "kl":
        first[name] = {
            f"test{seed}": rng.choice(60, 5, replace=False).tolist() for seed in range(5)
        }
    (folder / "bo-initializations.json").write_text(json.dumps({"77": first}))
    return {**parts, "first": first}


def arrays(dataset: dict) -> tuple[np.ndarray, np.ndarray]:
    return np.array(dataset["X"]), np.array(dataset["y"])


HASTY = {"members": 2, "width": 8, "layers": 2, "epochs": 5, "training": {"steps": 20}}
HASTY_TEXT = "dre:members=2,width=8,layers=2,epochs=5,training.steps=20"


@pytest.mark.parametrize("spread", [1.0, 3.0], ids=["unit cube", "beyond it"])
@pytest.mark.parametrize(
    ("text", "name", "options"),
    [  # not the forest: its thresholds move by rounding errors when y is scaled
        ("random", "random", {}),
        ("gp", "gp", {}),
        ("portfolio", "portfolio", {}),
        (HASTY_TEXT, "dre", HASTY),
    ],
    ids=["random", "gp", "portfolio", "dre"],
)
def test_the_same_curves_as_the_handler(text, name, options, spread, tmp_path):
    content = write_hpob(tmp_path / "hpob-data", spread=spread)
    run(["77"], [text], seeds=[0, 3], trials=TRIALS, out=tmp_path / "out", data=tmp_path)
    sources, checks = (
        {task: arrays(d) for task, d in content[part].items()} for part in ("train", "validation")
    )
    for task in "kl":
        X, y = arrays(content["test"][task])
        for seed in (0, 3):
            method = hpob_method(name, sources, checks, seed=seed, **options)
            curve = handled(method, X, y, content["first"][task][f"test{seed}"], TRIALS)
            ours = Cell("77", task, text, seed, 5, TRIALS).read(tmp_path / "out").regrets
            np.testing.assert_allclose(ours, 1 - curve, atol=1e-12)


@pytest.mark.skipif(not SHARED.is_dir(), reason="needs the shared data")
@pytest.mark.parametrize("name", ["random", "portfolio"])
def test_the_same_curves_on_a_real_meta_dataset(name, tmp_path):
    folder = SHARED / "tst-svm-hpob"
    files = ("train-dataset", "validation-dataset", "test-dataset")
    train, checks, test = (
        next(iter(json.loads((folder / f"meta-{f}.json").read_text()).values())) for f in files
    )
    first = next(iter(json.loads((folder / "bo-initializations.json").read_text()).values()))
    data = SHARED.resolve()
    run(["tst-svm-hpob"], [name], seeds=[1], trials=TRIALS, out=tmp_path, data=data)
    method = hpob_method(
        name,
        {task: arrays(d) for task, d in train.items()},
        {task: arrays(d) for task, d in checks.items()},
        seed=1,
    )
    assert len(test) == 10
    for task, content in test.items():
        curve = handled(method, *arrays(content), first[task]["test1"], TRIALS)
        ours = Cell("tst-svm-hpob", task, name, 1, 5, TRIALS).read(tmp_path).regrets
        np.testing.assert_allclose(ours, 1 - curve, atol=1e-12)


def test_any_point_is_suggested_without_a_pool(tmp_path):
    rng = np.random.default_rng(1)
    X = rng.random((12, 3))
    for name in ("random", "gp"):
        point = hpob_method(name, seed=2).observe_and_suggest(X, -((X - 0.3) ** 2).sum(axis=1))
        assert point.shape == (1, 3) and (point >= 0).all() and (point <= 1).all()
    assert np.abs(point - 0.3).max() < 0.2


def test_an_object_serves_many_data_sets_and_keeps_no_state():
    rng = np.random.default_rng(1)
    X, other = rng.random((20, 2)), rng.random((15, 4))
    method = hpob_method("gp", seed=5)
    first = method.observe_and_suggest(X[:6], X[:6, :1], X[6:])
    method.observe_and_suggest(other[:6], other[:6, 0], other[6:])
    assert method.observe_and_suggest(X[:6], X[:6, :1], X[6:]) == first
    assert hpob_method("gp", seed=5).observe_and_suggest(X[:6], X[:6, 0], X[6:]) == first


def test_larger_accuracies_are_better():
    X = np.linspace(0, 1, 21)[:, None]
    seen = [0, 3, 6, 9, 12, 15]
    rest = [k for k in range(21) if k not in seen]
    choice = hpob_method("gp", seed=0).observe_and_suggest(X[seen], X[seen], X[rest])
    assert X[rest][choice] > 0.8


def test_wrong_uses_are_said():
    with pytest.raises(UnknownNameError, match="unknown method 'dree'"):
        hpob_method("dree")
    X = np.zeros((3, 2))
    with pytest.raises(OptionError, match="X_pen is empty"):
        hpob_method("random").observe_and_suggest(X, X[:, 0], np.empty((0, 2)))


def test_a_method_with_a_design_begins_with_random_rows():
    benchmark = load("quadratics")
    from rankwise import Optimizer, Task

    pool = benchmark.encoder.sample(30, np.random.default_rng(0))
    strategy = Optimizer(benchmark.encoder, method="gp").strategy
    few = Task.of(pool[:3], [1.0, 2.0, 3.0])
    rows = {Chooser(strategy, seed).choose(few, pool[3:]) for seed in range(8)}
    assert len(rows) > 4  # a model would agree with itself
