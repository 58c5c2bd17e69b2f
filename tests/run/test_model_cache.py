"""Models that are learnt once."""

from __future__ import annotations

import os

import numpy as np
import pytest

from rankwise import Encoder, Task, TaskSet, minimize, surrogates
from rankwise.run.model_cache import NotKept, learnt_optimizer, model_path

ENCODER = Encoder({"x": (0.0, 1.0), "y": (0.0, 1.0)})
HASTY = {"members": 2, "width": 4, "layers": 1, "epochs": 3, "training": {"steps": 5}}


def past(shift: float = 0.0) -> TaskSet:
    X = ENCODER.sample(20, np.random.default_rng(0))
    tasks = (Task.of(X, ((X - 0.3 * k) ** 2).sum(axis=1) + shift * X[:, 0]) for k in range(3))
    return TaskSet(tuple(tasks), (), ENCODER.fingerprint)


def models(folder) -> list[str]:
    return sorted(path.name for path in folder.glob("*.safetensors"))


def test_a_model_is_learnt_once_and_then_read(tmp_path, monkeypatch):
    first = learnt_optimizer("dre", ENCODER, past(), tmp_path, **HASTY)
    assert len(models(tmp_path)) == 1 and not list(tmp_path.glob("*.checkpoint*"))
    monkeypatch.setattr(surrogates.DeepRankingEnsemble, "meta_fit", None)  # calling it would fail
    second = learnt_optimizer("dre", ENCODER, past(), tmp_path, **HASTY)
    assert first.ask(2) == second.ask(2)


@pytest.mark.parametrize(
    ("tasks", "options"),
    [(past(0.5), HASTY), (past(), HASTY | {"epochs": 4}), (past(), HASTY | {"training": {}})],
    ids=["other tasks", "another option", "other training"],
)
def test_other_content_is_another_model(tasks, options, tmp_path):
    if not options["training"]:
        options = {**options, "training": {"steps": 6}}
    learnt_optimizer("dre", ENCODER, past(), tmp_path, **HASTY)
    learnt_optimizer("dre", ENCODER, tasks, tmp_path, **options)
    assert len(models(tmp_path)) == 2


def test_what_has_nothing_to_save_saves_nothing(tmp_path):
    for method in ("gp", "portfolio", "random"):
        learnt_optimizer(method, ENCODER, past(), tmp_path)
    learnt_optimizer("dre", ENCODER, TaskSet(()), tmp_path, **HASTY)
    constant = TaskSet((Task.of(np.zeros((3, 2)), [1, 1, 1]),), (), ENCODER.fingerprint)
    learnt_optimizer("dre", ENCODER, constant, tmp_path, **HASTY)
    assert models(tmp_path) == []
    proposed = learnt_optimizer("portfolio", ENCODER, past(), tmp_path).ask()
    assert proposed[0] in ENCODER.decode(past().tasks[0].X)


def test_an_interrupted_training_goes_on(tmp_path, monkeypatch):
    whole = learnt_optimizer("dre", ENCODER, past(), tmp_path / "a", **HASTY)
    real = surrogates.DeepRankingEnsemble.save

    def die(self, path, **facts):
        raise KeyboardInterrupt

    monkeypatch.setattr(surrogates.DeepRankingEnsemble, "save", die)
    with pytest.raises(KeyboardInterrupt):
        learnt_optimizer("dre", ENCODER, past(), tmp_path / "b", **HASTY)
    monkeypatch.setattr(surrogates.DeepRankingEnsemble, "save", real)
    again = learnt_optimizer("dre", ENCODER, past(), tmp_path / "b", **HASTY)
    assert again.ask(2) == whole.ask(2)


@pytest.mark.parametrize("guard", [False, True])
@pytest.mark.parametrize("content", [b"", b"damaged", None], ids=["empty", "damaged", "cut"])
def test_a_damaged_model_is_learnt_again(content, guard, tmp_path, caplog):
    first = learnt_optimizer("rgpe", ENCODER, past(), tmp_path, guard=guard)
    [path] = tmp_path.glob("*.safetensors")
    whole = path.read_bytes()
    path.write_bytes(whole[:-100] if content is None else content)
    again = learnt_optimizer("rgpe", ENCODER, past(), tmp_path, guard=guard)
    assert again.ask(3) == first.ask(3) and "learning it again" in caplog.text
    assert path.read_bytes() == whole


@pytest.mark.parametrize("guard", [False, True])
def test_what_cannot_be_kept_is_used_all_the_same(guard, tmp_path, monkeypatch):
    first = learnt_optimizer("rgpe", ENCODER, past(), tmp_path / "kept", guard=guard)
    (tmp_path / "file").touch()
    with pytest.warns(NotKept, match="cannot be saved in"):
        second = learnt_optimizer("rgpe", ENCODER, past(), tmp_path / "file", guard=guard)

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.write_bytes", full)
    with pytest.warns(NotKept, match="No space left"):
        third = learnt_optimizer("rgpe", ENCODER, past(), tmp_path / "full", guard=guard)
    assert first.ask(3) == second.ask(3) == third.ask(3)


def test_a_damaged_checkpoint_is_no_obstacle(tmp_path):
    whole = learnt_optimizer("dre", ENCODER, past(), tmp_path, **HASTY)
    [path] = tmp_path.glob("*.safetensors")
    path.rename(path.with_suffix(".checkpoint"))  # it is no checkpoint
    with pytest.warns(NotKept):
        again = learnt_optimizer("dre", ENCODER, past(), tmp_path, **HASTY)
    assert again.ask(2) == whole.ask(2)
    learnt_optimizer("dre", ENCODER, past(), tmp_path, **HASTY)
    assert models(tmp_path) == [path.name]


def test_models_can_be_read_by_those_who_can_read_the_folder(tmp_path):
    old = os.umask(0o022)
    try:
        learnt_optimizer("rgpe", ENCODER, past(), tmp_path)
    finally:
        os.umask(old)
    [path] = tmp_path.glob("*.safetensors")
    assert path.stat().st_mode & 0o777 == 0o644


def test_minimize_keeps_what_it_learns_if_it_is_told_where(tmp_path, monkeypatch):
    def run(**arguments):
        result = minimize(
            lambda c: c["x"] + c["y"],
            ENCODER,
            method="dre",
            tasks=past(),
            trials=3,
            seed=0,
            **HASTY,
            **arguments,
        )
        return [trial.configuration for trial in result.trials]

    expected = run()
    assert run(models=tmp_path / "models") == expected
    assert len(models(tmp_path / "models")) == 1 and len(list(tmp_path.iterdir())) == 1
    monkeypatch.setattr(surrogates.DeepRankingEnsemble, "meta_fit", None)  # calling it would fail
    assert run(models=str(tmp_path / "models")) == expected


def test_a_warning_of_minimize_points_to_the_line_of_its_caller(tmp_path):
    (tmp_path / "file").touch()
    arguments = {"method": "rgpe", "tasks": past(), "trials": 1, "models": tmp_path / "file"}
    with pytest.warns(NotKept) as caught:
        minimize(lambda c: c["x"], ENCODER, **arguments)
    [warning] = (w for w in caught if w.category is NotKept)
    assert warning.filename == __file__


def test_without_a_folder_nothing_is_kept(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    kept = learnt_optimizer("rgpe", ENCODER, past(), tmp_path / "kept")
    assert learnt_optimizer("rgpe", ENCODER, past(), None).ask(3) == kept.ask(3)
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_the_path_of_a_model_is_known_before_it_is_learnt(tmp_path):
    path = model_path("rgpe", past(), tmp_path, {"guard": True})
    assert not path.exists()
    learnt_optimizer("rgpe", ENCODER, past(), tmp_path)  # a guard changes nothing of the model
    assert path.exists()
    assert model_path("gp", past(), tmp_path, {}) is None
    assert model_path("rgpe", past(), None, {}) is None
    assert model_path("rgpe", TaskSet(()), tmp_path, {}) is None
    assert model_path("rgpe", past(), tmp_path, {"model": path}) is None
