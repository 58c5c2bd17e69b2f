"""The data files of the built-in past: complete, readable, and refused if damaged."""

from __future__ import annotations

import dataclasses
import shutil

import numpy as np
import pytest

from rankwise.builtin.learnt import learnt_surrogate
from rankwise.builtin.records import DATASETS, FOLDER, available, dataset_facts, read_records
from rankwise.builtin.tasks import Placed, source_tasks, study_name
from rankwise.errors import ArchiveError, UnknownNameError
from rankwise.estimators import make_estimator, space_of
from rankwise.estimators.built_in import builtin_past
from rankwise.space.encoder import Encoder
from rankwise.surrogates.empirical_bayes.past_functions import Source


def encoder_of(learner, kind="classification"):
    return Encoder(space_of(make_estimator(learner, kind)).space)


def test_files_are_small_and_have_every_data_set():
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 6 * 2**20
    assert "svc" in available("classification") and "lasso" not in available("classification")
    facts = dataset_facts()
    records = read_records("svc", "classification")
    assert set(records.datasets) == set(facts["classification"])
    assert facts["classification"]["spectf"]["group"] == facts["classification"]["spect"]["group"]
    notice = (FOLDER / "NOTICE").read_text("utf-8")
    assert all(f"- {name}: " in notice for kind in facts for name in facts[kind])


def test_configurations_of_records_belong_to_the_ready_made_space():
    records, encoder = read_records("svc", "regression"), encoder_of("svc", "regression")
    rows = records.rows(3)
    found = records.configurations(rows)
    assert len(found) == 65 and found[0] == encoder.default
    task = source_tasks([Placed.of(records, encoder)], "r2")[3]
    assert np.allclose(task.X, encoder.encode(found), atol=1e-6)
    assert np.allclose(task.y, -records.scores["r2"][rows], equal_nan=True)
    assert task.name == f"{records.datasets[3]} (built-in 2026-11)"
    assert task.context["log_rows"] > 0


def test_what_was_learnt_is_what_would_be_learnt():
    records, encoder = read_records("ridge", "regression"), encoder_of("ridge", "regression")
    tasks = source_tasks([Placed.of(records, encoder)], "mae")
    learnt = learnt_surrogate(records, "mae", tasks)
    assert learnt is not None and learnt.meta_learned and len(learnt.past) == len(tasks)
    [stored] = [s for s in learnt.past.sources if s.name == tasks[0].name]
    fitted = Source.of(tasks[0])
    X = np.linspace(0, 1, 7)[:, None]
    assert np.allclose(stored(X), fitted(X), atol=1e-3)
    moved = [*tasks[:-1], tasks[-1].rows(range(len(tasks[-1]) - 1))]
    assert learnt_surrogate(records, "mae", moved) is None


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.npz")), ids=lambda path: path.stem)
def test_a_search_of_every_learner_starts_from_what_was_learnt(path):
    learner, kind = path.stem.split(".")
    if learner in ("lightgbm", "xgboost", "catboost"):
        pytest.importorskip(learner)
    estimator = make_estimator(learner, kind)
    space = space_of(estimator)
    metric = {"classification": "balanced_accuracy", "regression": "neg_mean_absolute_error"}
    found = builtin_past(estimator, space, Encoder(space.space), metric[kind])
    assert found is not None and found.learners == (learner,) and not found.notes
    assert len(found.tasks) >= 30 and found.surrogate is not None


def test_unknown_names_list_the_valid_ones():
    with pytest.raises(UnknownNameError, match="svc"):
        read_records("svm", "classification")
    with pytest.raises(UnknownNameError, match="kind"):
        read_records("svc", "clustering")


@pytest.mark.parametrize("damage", ["cut", "other", "no data sets"])
def test_a_damaged_file_says_so(tmp_path, damage):
    for name in ("ridge.regression.npz", DATASETS):
        shutil.copy(FOLDER / name, tmp_path)
    path = tmp_path / "ridge.regression.npz"
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:5000])
    elif damage == "other":
        path.write_bytes(b"PK nothing")
    else:
        (tmp_path / DATASETS).write_text("{}")
    with pytest.raises(ArchiveError, match="install the package again"):
        read_records("ridge", "regression", tmp_path)


def test_learners_share_the_data_sets_that_all_of_them_have():
    records, encoder = read_records("ridge", "regression"), encoder_of("ridge", "regression")
    fewer = dataclasses.replace(
        records,
        datasets=records.datasets[:3],
        ends=records.ends[:3],
        groups={name: records.groups[name] for name in records.datasets[:3]},
    )
    parts = [Placed.of(records, encoder), Placed.of(fewer, encoder)]
    tasks = source_tasks(parts, "r2")
    assert [task.name for task in tasks] == [study_name(name) for name in records.datasets[:3]]
    assert len(tasks[0]) == 2 * (records.rows(0).stop - records.rows(0).start)
