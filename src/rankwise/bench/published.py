"""Published results of HPO-B as runs, to compare them with our results.

A file has the results of one method: `space`, `dataset` and `seed` (rows,), and `incumbent`
(rows, 101). The incumbent is the best accuracy after the 5 initial points and after each of 100
trials, normalized so that 1 is the best of the task's table and 0 the worst. Files that end in
"-C" or begin with "optformer-" belong to HPO-B's continuous variant. They can be compared with
runs of that variant only.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from rankwise._core.data_errors import unreadable, wrong
from rankwise.bench.base import INITIAL
from rankwise.bench.results import Run
from rankwise.errors import BenchmarkDataError, check_count
from rankwise.types import Array

MARK = " (published)"
"""Suffix of the name of a published method, which distinguishes it from a method of Rankwise."""

_TRANSFER = {"ablr", "fsbo", "fsbo2", "hyperbo", "nap", "optformer", "rgpe", "taf", "tst"}


def read_published(
    source: Path | Iterable[Path], *, trials: int = 100, spaces: Iterable[str] | None = None
) -> list[Run]:
    """Read the runs of published methods.

    The method of a run is the name of the file, without "hpob-" and with `MARK`. The benchmark is
    the search space, and the task is the data set. An incumbent that becomes worse is replaced by
    the best so far. Seconds are not published.

    Args:
        source: files (.npz), or a folder. From a folder, all results are read that HPO-B
            published for its discrete variant ("hpob-*.npz" without those that end in "-C").
        trials: number of trials. Longer runs are cut; shorter runs count as missing.
        spaces: ids of the search spaces; by default all.

    Raises:
        BenchmarkDataError: a file is missing or damaged.
    """
    check_count("trials", trials)
    wanted = None if spaces is None else set(spaces)
    runs = (run for path in _files(source) for run in _read(path, trials))
    return [run for run in runs if wanted is None or run.benchmark in wanted]


def is_transfer(method: str) -> bool:
    """True if a published method learns from source tasks."""
    # All files of the publications "nap" and "optformer" begin with that name, also those of
    # methods without transfer.
    name = re.sub("^(nap|optformer)-", "", method.removesuffix(MARK).lower())
    return method.endswith(MARK) and not _TRANSFER.isdisjoint(re.split("[-_]", name))


def _files(source: Path | Iterable[Path]) -> list[Path]:
    if not isinstance(source, Path):
        return list(source)
    if source.is_file():
        return [source]
    files = [path for path in sorted(source.glob("hpob-*.npz")) if not path.stem.endswith("-C")]
    if not files:
        raise BenchmarkDataError(
            f"there are no published results (hpob-*.npz) in {source}: choose another folder"
        )
    return files


def _read(path: Path, trials: int) -> list[Run]:
    spaces, datasets, seeds, incumbents = _arrays(path)
    regrets = 1.0 - np.maximum.accumulate(incumbents[:, : trials + 1], axis=1)
    length = regrets.shape[1] - 1
    error = "" if length == trials else f"its published runs end after {length} trials"
    method = path.stem.removeprefix("hpob-") + MARK
    return [
        Run(
            str(space),
            str(dataset),
            method,
            seed,
            INITIAL,
            trials,
            None if error else curve,
            error=error,
        )
        for space, dataset, seed, curve in zip(spaces, datasets, seeds, regrets, strict=True)
    ]


def _arrays(path: Path) -> tuple[np.ndarray, np.ndarray, list[int], Array]:
    """Read spaces, data sets, seeds (rows,) and incumbents (rows, trials + 1) from a file.

    Raises:
        BenchmarkDataError: the file is missing or damaged.
    """
    names = ("space", "dataset", "seed", "incumbent")
    try:
        with np.load(path, allow_pickle=False) as file:
            spaces, datasets, seeds, incumbents = (file[name] for name in names)
    except KeyError as error:
        raise wrong(path, f"an array is missing ({error.args[0]})") from error
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise unreadable(path, error) from error
    if incumbents.ndim != 2 or incumbents.shape[1] < 2 or incumbents.dtype.kind != "f":
        raise wrong(path, "'incumbent' is not a table of numbers (rows, trials + 1)")
    if any(column.shape != (len(incumbents),) for column in (spaces, datasets, seeds)):
        raise wrong(path, "'space', 'dataset' and 'seed' do not have one entry for each row")
    if not np.all((incumbents >= 0) & (incumbents <= 1)):
        raise wrong(path, "'incumbent' is not between 0 and 1 everywhere")
    return spaces, datasets, [_seed(path, str(seed)) for seed in seeds], incumbents


def _seed(path: Path, text: str) -> int:
    """Convert HPO-B's name of a seed ("test0", "test1", ...) to a number."""
    match = re.fullmatch(r"(?:test)?(\d+)", text)
    if match is None:
        raise wrong(path, f"the seed {text!r} is not like 'test0'")
    return int(match[1])
