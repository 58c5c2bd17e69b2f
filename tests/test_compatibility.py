"""Studies and models that the version before the move of modules wrote still load and resume."""

from __future__ import annotations

import importlib.util
import json
import shutil

import numpy as np
import optuna
import pytest
from support import TESTS

import rankwise

FILES = TESTS / "data" / "before_move"
EXPECTED = json.loads((FILES / "expected.json").read_text(encoding="utf-8"))

NEW_MODELS = {"mbo": 6}
"""Methods that propose differently since then, and how many trials the half-finished study has."""

_spec = importlib.util.spec_from_file_location("make_files", FILES / "make_files.py")
made = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(made)


@pytest.fixture
def folder(tmp_path):
    """A copy of the files, because studies are continued in place."""
    return shutil.copytree(FILES, tmp_path / "files")


def close(found: dict, wanted: dict) -> bool:
    """True if two configurations are equal up to the arithmetic of another machine."""
    return found.keys() == wanted.keys() and all(
        found[k] == (pytest.approx(v, rel=1e-6, abs=1e-9) if isinstance(v, float) else v)
        for k, v in wanted.items()
    )


@pytest.mark.parametrize("method", made.METHODS)
def test_a_half_finished_study_ends_like_an_uninterrupted_one(method, folder):
    result = rankwise.minimize(
        made.objective,
        made.SPACE,
        trials=10,
        method=method,
        seed=3,
        tasks=made.past_tasks(method),
        storage=made.journal(folder / "studies.log"),
        name=f"half-{method}",
    )
    wanted = EXPECTED["minimize"][method]
    assert len(result.trials) == len(wanted) == 10
    same = NEW_MODELS.get(method, 10)
    for trial, (configuration, value) in zip(result.trials[:same], wanted[:same], strict=True):
        assert close(trial.configuration, configuration)
        assert trial.value == pytest.approx(value, rel=1e-6, abs=1e-9)


def expects_the_same(method, folder, *configurations) -> bool:
    """True if a saved model has the same expectation for some configurations."""
    optimizer = rankwise.Optimizer(
        made.MODEL_SPACE,
        method=method,
        model=folder / f"{method}.safetensors",
        seed=0,
        **made.OPTIONS[method],
    )
    expected = optimizer.strategy.foresight({})(optimizer.encoder.encode(list(configurations)))
    return bool(np.ptp(expected) < 1e-9)


@pytest.mark.parametrize("method", made.OPTIONS)
def test_a_saved_model_gives_the_same_proposals(method, folder):
    found = made.proposals(method, folder / f"{method}.safetensors")
    wanted = EXPECTED["models"][method]["proposals"]
    assert len(found) == len(wanted) == 3
    # Later ones depend on searches of the whole cube, and so does the first one of a model that
    # expects the same everywhere, as that of `fsbo` does.
    assert close(found[0], wanted[0]) or expects_the_same(method, folder, found[0], wanted[0])
    assert all(set(c) == {"x", "y"} for c in found)


def test_the_samplers_study_goes_on(folder):
    study = optuna.load_study(
        study_name="sampled",
        storage=made.journal(folder / "studies.log"),
        sampler=rankwise.RankwiseSampler(seed=0),
    )
    before = [trial.params for trial in study.trials]
    study.optimize(made.sampled, n_trials=2)
    assert [trial.params for trial in study.trials[:8]] == before and len(study.trials) == 10


def test_a_search_resumes_by_its_name(folder):
    search = made.search(made.journal(folder / "searches.log"), 6)
    scores = [float(s) for s in search.cv_results_["mean_test_score"]]
    assert len(scores) == 6
    assert scores[:5] == pytest.approx(EXPECTED["search"]["scores"])
