"""With a kept model, an archive in a database is not read again unless it has changed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import optuna
import pytest

from archive.past import fill, objective
from rankwise import RankwiseSampler
from rankwise.archive import attach_context, open_archive
from rankwise.archive.sources import rdb_rows
from rankwise.archive.summary import Summary, database_of


@pytest.fixture(scope="module")
def original(tmp_path_factory) -> Path:
    """A database of three studies."""
    path = tmp_path_factory.mktemp("summary") / "past.db"
    storage = optuna.storages.RDBStorage(f"sqlite:///{path}")
    for k in range(3):
        fill(storage, f"old-{k}", 12, seed=k)
    return path


@pytest.fixture
def url(original, tmp_path) -> str:
    shutil.copy(original, tmp_path / "past.db")
    return f"sqlite:///{tmp_path}/past.db"


@pytest.fixture
def reads(monkeypatch) -> list[list[int]]:
    """The ids of the studies of every reading of trials."""
    found: list[list[int]] = []
    real = rdb_rows.RowReader.read

    def read(self, ids):
        found.append(list(ids))
        return real(self, ids)

    monkeypatch.setattr(rdb_rows.RowReader, "read", read)
    return found


def first_trial(archive, storage=None, **options) -> dict:
    sampler = RankwiseSampler(archive, seed=0, **options)
    study = optuna.create_study(storage=storage, sampler=sampler, study_name="new")
    study.optimize(objective, n_trials=1)
    assert not sampler._said
    return study.trials[0].params


def test_a_kept_model_needs_no_trials(url, reads):
    learnt = first_trial(url)
    assert len(reads) == 1
    assert first_trial(url) == learnt == first_trial(optuna.storages.RDBStorage(url))
    assert len(reads) == 1


def test_a_method_with_the_guard_needs_no_trials(url, reads):
    options = {"method": "rgpe", "options": {"guard": True}}
    learnt = first_trial(url, **options)
    assert first_trial(url, **options) == learnt
    seen = len(reads)
    assert first_trial(url, **options) == learnt and len(reads) == seen


def test_a_method_that_keeps_nothing_reads_the_archive(url, reads):
    assert first_trial(url, method="portfolio") == first_trial(url, method="portfolio")
    assert len(reads) == 2


@pytest.mark.parametrize("change", ["trial", "study", "deleted", "facts"])
def test_a_changed_archive_is_read_again(url, reads, change):
    first_trial(url)
    storage = optuna.storages.RDBStorage(url)
    study = optuna.load_study(study_name="old-1", storage=storage)
    if change == "trial":
        study.optimize(objective, n_trials=1)
    elif change == "study":
        fill(storage, "old-3", 5)
    elif change == "deleted":
        optuna.delete_study(study_name="old-1", storage=storage)
    else:
        attach_context(study, {"rows": 100})
    first_trial(url)
    assert len(reads) == 2


def test_the_current_study_does_not_change_its_past(url, reads):
    """Other workers of a study in the archive itself do not read the archive again."""
    study = optuna.create_study(
        storage=url, study_name="new", sampler=RankwiseSampler(url, seed=0)
    )
    study.optimize(objective, n_trials=2)
    worker = optuna.load_study(storage=url, study_name="new", sampler=RankwiseSampler(url, seed=0))
    worker.optimize(objective, n_trials=1)
    assert len(reads) == 1


@pytest.mark.parametrize("damage", ["cut", "digest", "other", "empty"])
def test_a_damaged_summary_is_written_again(url, reads, tmp_path, damage):
    learnt = first_trial(url)
    [path] = tmp_path.glob("*.rankwise/archive-*.json")
    whole = path.read_text()
    version, digest, text = json.loads(whole)
    broken = {
        "cut": whole[:50],
        "digest": json.dumps([version, digest, text.replace("lr", "rl")]),
        "other": json.dumps({"a": 1}),
        "empty": "",
    }
    path.write_text(broken[damage])
    assert first_trial(url) == learnt
    assert len(reads) == 2 and path.read_text() == whole


def test_a_summary_is_exact(url, tmp_path):
    archive = open_archive(url)
    summary = Summary.of(archive)
    summary.write(tmp_path / "a.json", "stamp")
    again = Summary.read(tmp_path / "a.json", "stamp")
    assert again is not None and again.digest == archive.tasks.digest
    assert again.space.encoder.fingerprint == archive.space.encoder.fingerprint
    assert again.space.distributions == archive.space.distributions
    assert again.space.conditions == archive.space.conditions
    assert again.typical == summary.typical
    assert Summary.read(tmp_path / "a.json", "another") is None


def test_other_sources_have_no_summary(tmp_path):
    for source in (None, [], optuna.storages.InMemoryStorage(), tmp_path / "no.csv", "no.db"):
        with database_of(source, "*", ()) as database:
            assert database is None
