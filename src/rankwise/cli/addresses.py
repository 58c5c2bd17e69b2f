"""Functions that open the archive of a command-line address for reading and writing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rankwise.cli.console import NOWHERE
from rankwise.errors import OptionError, StorageError, UnknownNameError
from rankwise.storage.locations import JOURNAL_FILES, SQLITE_FILES, storage_url

if TYPE_CHECKING:
    import optuna
    from optuna.storages import BaseStorage


def storage_at(address: str) -> str | BaseStorage | None:
    """Return the storage of an address for Optuna: a URL or an open journal; None for "none".

    Raises:
        OptionError: the address is neither a URL nor the name of a database or journal file.
    """
    if address == NOWHERE:
        return None
    url, path = storage_url(address), Path(address)
    if url is not None:
        return url
    if path.suffix in JOURNAL_FILES:
        from rankwise.archive.sources.optuna_storage import open_journal

        return open_journal(path)
    raise OptionError(
        f"--archive is a storage URL such as sqlite:///rankwise.db, a file that ends with "
        f"{', '.join((*SQLITE_FILES, *JOURNAL_FILES))}, or {NOWHERE}, not {address!r}"
    )


def optuna_at(source: str) -> BaseStorage | None:
    """Open the Optuna storage at an address; None if the address is another kind of source.

    Raises:
        StorageError: the storage cannot be opened.
    """
    from rankwise.archive.sources import optuna_storage
    from rankwise.archive.sources.registry import source_of
    from rankwise.errors import ArchiveError

    try:
        ours = source_of(source) is optuna_storage
    except ArchiveError:
        ours = True  # `open_address` raises a better error
    return optuna_storage.open_address(source) if ours else None


def existing_storage(address: str) -> BaseStorage:
    """Open the existing storage at an address.

    Raises:
        StorageError: there is no storage, or it cannot be opened.
    """
    found = None if address == NOWHERE else optuna_at(address)
    if found is None:
        raise StorageError(f"there is no archive {address}; check the path, or give --archive")
    return found


def load_study(name: str, storage: BaseStorage, address: str) -> optuna.Study:
    """Load a study by name.

    Raises:
        UnknownNameError: there is no such study; the message lists the existing ones.
        StorageError: the storage cannot be read.
    """
    import optuna

    from rankwise.storage.all_studies import all_studies
    from rankwise.storage.study_log import quiet_optuna, storage_errors, without_password

    with quiet_optuna(), storage_errors(without_password(address), "read"):
        names = [study.study_name for study in all_studies(storage)]
        if name in names:
            return optuna.load_study(study_name=name, storage=storage)
    raise UnknownNameError("study", name, names)
