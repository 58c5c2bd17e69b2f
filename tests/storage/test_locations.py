"""Addresses of storages: one reading for archives, the command line and models."""

from __future__ import annotations

from pathlib import Path

import optuna
import pytest
from optuna.storages.journal import JournalFileBackend, JournalStorage

from rankwise.archive import open_archive
from rankwise.archive.sources.optuna_storage import open_address
from rankwise.cli.addresses import optuna_at, storage_at
from rankwise.errors import OptionError, StorageError
from rankwise.storage.locations import is_journal, storage_url


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("postgresql://me@host/studies", "postgresql://me@host/studies"),
        ("sqlite:///a.db", "sqlite:///a.db"),
        ("a.db", "sqlite:///a.db"),
        ("./folder/a.sqlite3", "sqlite:///folder/a.sqlite3"),
        (Path("/folder/a.sqlite"), "sqlite:////folder/a.sqlite"),
        ("a.log", None),
        ("a.csv", None),
        ("folder", None),
    ],
)
def test_urls_and_files_of_databases(address, url):
    assert storage_url(address) == url


def test_a_journal_is_known_by_its_first_line(tmp_path):
    paths = {name: tmp_path / name for name in ("empty.log", "table.jsonl", "text.log")}
    paths["empty.log"].touch()
    paths["table.jsonl"].write_text('{"x": 1}\n')
    paths["text.log"].write_text("no JSON\n")
    assert [is_journal(path) for path in paths.values()] == [True, False, False]
    assert not is_journal(tmp_path) and not is_journal(tmp_path / "nowhere")


def test_archives_and_commands_open_the_same_storages(tmp_path):
    database, journal = tmp_path / "a.db", tmp_path / "a.log"
    for storage in (f"sqlite:///{database}", JournalStorage(JournalFileBackend(str(journal)))):
        study = optuna.create_study(storage=storage, study_name="s")
        ranges = {"x": optuna.distributions.FloatDistribution(0.0, 1.0)}
        trial = optuna.trial.create_trial(value=1.0, params={"x": 0.5}, distributions=ranges)
        study.add_trial(trial)
    for address in (database, f"sqlite:///{database}", journal):
        for storage in (open_address(address), optuna_at(str(address))):
            assert [frozen.study_name for frozen in storage.get_all_studies()] == ["s"]
        assert [study.name for study in open_archive(address).studies] == ["s"]
    assert open_archive(database).origin == f"sqlite:///{database}"
    assert open_archive(journal).origin == str(journal)


def test_what_is_not_there_or_something_else(tmp_path):
    with pytest.raises(StorageError, match="there is no such file"):
        open_address(tmp_path / "a.db")
    assert open_address(tmp_path / "a.csv") is None and open_address(tmp_path) is None
    assert storage_at("a.db") == "sqlite:///a.db" and storage_at("none") is None
    with pytest.raises(OptionError, match="--archive is"):
        storage_at("a.csv")
