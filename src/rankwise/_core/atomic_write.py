"""atomic_write: replace a file completely or not at all; private_folder: make its folder."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def atomic_write(path: str | os.PathLike[str], *, temporary: str | None = None) -> Iterator[Path]:
    """Yield a temporary path; when the block ends, rename the file written there to `path`.

    If the block raises, the temporary file is removed and a file at `path` stays as it was. A
    symbolic link is followed. A path that is not a regular file, such as /dev/stdout, is yielded
    itself, because it cannot be replaced.

    Args:
        path: the file to write; its folder must exist.
        temporary: name of the temporary file, for a file that only one process writes at a time:
            the file that a killed process left is then overwritten. By default the name is unique
            to the thread.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "numbers.txt"
        >>> with atomic_write(path) as unfinished:
        ...     _ = unfinished.write_text("1 2 3")
        >>> path.read_text()
        '1 2 3'
    """
    target = Path(path)
    if target.exists() and not target.is_file() and not target.is_dir():
        yield target
        return
    if target.is_symlink():
        target = target.resolve()
    name = temporary or f".{target.name}.{os.getpid()}-{threading.get_ident()}"
    unfinished = target.with_name(name)
    try:
        yield unfinished
        unfinished.replace(target)
    finally:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)


def private_folder(path: str | os.PathLike[str]) -> Path:
    """Make a folder that only the user can read and write; an existing one stays as it is."""
    folder = Path(path)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder
