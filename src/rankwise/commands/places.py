"""Archives as the command line names them, opened for reading and writing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rankwise.commands.console import NOWHERE
from rankwise.errors import OptionError, StorageError, UnknownNameError

if TYPE_CHECKING:
    import optuna
    from optuna.storages import BaseStorage

_SQLITE = (".db", ".sqlite", ".sqlite3")
_JOURNAL = (".log", ".journal")


def storage_at(address: str) -> str | BaseStorage | None:
    """What Optuna opens for an address: a URL or a journal; None for "none".

    Raises:
        OptionError: a file that is neither a database nor a journal by its name.
    """
    if address == NOWHERE:
        return None
    if "://" in address:
        return address
    path = Path(address)
    if path.suffix in _SQLITE:
        return f"sqlite:///{path}"
    if path.suffix in _JOURNAL:
        from rankwise.archive.optuna_storage import open_journal

        return open_journal(path)
    raise OptionError(
        f"--archive is a storage URL such as sqlite:///rankwise.db, a file that ends with "
        f"{', '.join((*_SQLITE, *_JOURNAL))}, or {NOWHERE}, not {address!r}"
    )


def optuna_at(source: str) -> BaseStorage | None:
    """The Optuna storage that a source of past studies is; None if it is something else.

    Raises:
        StorageError: it is one and cannot be opened.
    """
    from rankwise.archive.opening import _is_journal
    from rankwise.archive.optuna_storage import open_journal, open_url

    path = Path(source)
    if "://" in source:
        return open_url(source)
    if path.suffix in _SQLITE:
        return open_url(f"sqlite:///{path}")
    return open_journal(path) if path.is_file() and _is_journal(path) else None


def existing_storage(address: str) -> BaseStorage:
    """The storage at an address, which must be there.

    Raises:
        StorageError: it is not, or cannot be opened.
    """
    found = None if address == NOWHERE else optuna_at(address)
    if found is None:
        raise StorageError(f"there is no archive {address}; check the path, or give --archive")
    return found


def load_study(name: str, storage: BaseStorage, address: str) -> optuna.Study:
    """The study of that name.

    Raises:
        UnknownNameError: there is none; the message lists those there are.
        StorageError: the storage cannot be read.
    """
    import optuna

    from rankwise.study import quiet_optuna, storage_errors, without_password

    with quiet_optuna(), storage_errors(without_password(address), "read"):
        names = [study.study_name for study in storage.get_all_studies()]
        if name in names:
            return optuna.load_study(study_name=name, storage=storage)
    raise UnknownNameError("study", name, names)
