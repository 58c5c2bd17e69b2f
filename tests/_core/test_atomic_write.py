"""atomic_write: a file is replaced completely or not at all."""

from __future__ import annotations

import os
import stat

import pytest

from rankwise._core.atomic_write import atomic_write


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_made_and_replaced(tmp_path):
    path = tmp_path / "file.txt"
    for text in ("first", "second"):
        with atomic_write(path) as unfinished:
            assert unfinished.parent == tmp_path and unfinished != path
            unfinished.write_text(text)
        assert path.read_text() == text
    assert names(tmp_path) == ["file.txt"]


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt, ValueError])
def test_after_a_failure_the_old_file_is_there_and_nothing_else(error, tmp_path):
    path = tmp_path / "file.txt"
    path.write_text("old")

    def fail():
        with atomic_write(path) as unfinished:
            unfinished.write_text("half")
            raise error

    with pytest.raises(error):
        fail()
    assert path.read_text() == "old" and names(tmp_path) == ["file.txt"]


def test_a_block_that_writes_nothing_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError), atomic_write(tmp_path / "file.txt"):
        pass


def test_a_folder_is_not_replaced(tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder"), atomic_write(tmp_path / "folder") as unfinished:
        unfinished.write_text("text")
    assert names(tmp_path) == ["folder"]


def test_others_can_read_the_file_as_the_umask_says(tmp_path):
    old = os.umask(0o022)
    try:
        with atomic_write(tmp_path / "file.txt") as unfinished:
            unfinished.write_text("text")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "file.txt").stat().st_mode) == 0o644


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "folder" / "file.txt")
    with atomic_write(tmp_path / "link") as unfinished:
        unfinished.write_text("text")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "folder" / "file.txt").read_text() == "text"


def test_what_is_no_regular_file_is_written_itself():
    with atomic_write("/dev/null") as unfinished:
        assert str(unfinished) == "/dev/null"
        unfinished.write_text("text")


def test_a_named_temporary_file_of_a_killed_process_is_overwritten(tmp_path):
    (tmp_path / "file.unfinished").write_text("left behind")
    with atomic_write(tmp_path / "file.txt", temporary="file.unfinished") as unfinished:
        unfinished.write_text("text")
    assert names(tmp_path) == ["file.txt"]
