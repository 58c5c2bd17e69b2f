"""Records of the built-in past: what is in the package's data files, and how they are read.

There is one file `data/LEARNER.KIND.npz` per learner and kind of problem. It contains plain arrays
only, so it is read without pickle:

| array | shape | content |
|---|---|---|
| `header` | (b,) | bytes of a JSON object: `format`, `version`, `learner`, `kind`, `hyperparameters`, `metrics` (name to direction), `datasets`, `rows`, `folds`, `exam`, `similarity` |
| `sizes` | (t,) | number of evaluations of each data set |
| `values` | (p, n) | value of each hyperparameter; a choice is an index, NaN is inactive |
| `scores` | (m, n) | mean over folds of each metric; NaN if undefined or failed |
| `status` | (n,) | index into `rankwise.history.task.STATUSES` |
| `seconds` | (n,) | CPU seconds of one fit |
| `learnt.METRIC.*` | | what `eb-gp` learnt, see `rankwise.builtin.learnt` |

`data/datasets.json` has the size, source, licence, meta-features and near-duplicates of each data
set. `benchmarks/builtin/build.py` writes these files.
"""  # noqa: E501

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from rankwise.errors import ArchiveError, check_name
from rankwise.history.task import STATUSES
from rankwise.types import Array

VERSION = "2026-11"
"""Name of the built-in past in logs and reports: the month of its evaluations."""

FORMAT = 1
KINDS = ("classification", "regression")
FOLDER = Path(__file__).parent / "data"
DATASETS = "datasets.json"


@dataclass(frozen=True)
class Hyperparameter:
    """A hyperparameter of the records.

    Attributes:
        name: name in the ready-made space.
        default: default value.
        low: smallest value of a number; 0 for a choice.
        high: largest value of a number; 0 for a choice.
        log: True for a number on a logarithmic scale.
        integer: True for whole numbers.
        choices: the choices; empty for a number.
    """

    name: str
    default: Any
    low: float = 0.0
    high: float = 0.0
    log: bool = False
    integer: bool = False
    choices: tuple[Any, ...] = ()

    def value(self, stored: float) -> Any:
        """The value that a number of the file stands for."""
        if self.choices:
            return self.choices[int(stored)]
        return int(stored) if self.integer else float(f"{stored:.6g}")  # stored as float32


@dataclass(frozen=True)
class Records:
    """The evaluations of one learner on t data sets, n in total.

    Attributes:
        learner: name of the ready-made space.
        kind: "classification" or "regression".
        hyperparameters: the p hyperparameters.
        datasets: names of the t data sets.
        ends: index after the last evaluation of each data set (t,).
        values: values of the hyperparameters (p, n), see the module's table.
        scores: values (n,) of each metric in its own direction.
        directions: "minimize" or "maximize" for each metric.
        status: status of each evaluation (n,), an index into `STATUSES`.
        seconds: CPU seconds of one fit (n,).
        learnt: arrays that `eb-gp` learnt, by metric and name.
        exam: `EmpiricalBayes.exam` by metric.
        similarity: names of meta-features and bandwidth of `Similarity` by metric.
        contexts: meta-features of each data set, by name.
        groups: group of near-duplicates of each data set, by name.
    """

    learner: str
    kind: str
    hyperparameters: tuple[Hyperparameter, ...]
    datasets: tuple[str, ...]
    ends: np.ndarray
    values: Array
    scores: Mapping[str, Array]
    directions: Mapping[str, str]
    status: np.ndarray
    seconds: Array
    learnt: Mapping[str, Mapping[str, Array]]
    exam: Mapping[str, float]
    similarity: Mapping[str, tuple[Sequence[str], float]]
    contexts: Mapping[str, Mapping[str, float]]
    groups: Mapping[str, str]

    def __len__(self) -> int:
        return len(self.status)

    def rows(self, dataset: int) -> slice:
        """The evaluations of a data set, by its index."""
        return slice(int(self.ends[dataset - 1]) if dataset else 0, int(self.ends[dataset]))

    def configurations(self, rows: slice) -> list[dict[str, Any]]:
        """The active hyperparameters of some evaluations."""
        found: list[dict[str, Any]] = [{} for _ in range(rows.start, rows.stop)]
        for hp, row in zip(self.hyperparameters, self.values[:, rows], strict=True):
            for configuration, stored in zip(found, row.tolist(), strict=True):
                if stored == stored:  # active
                    configuration[hp.name] = hp.value(stored)
        return found

    def statuses(self, rows: slice | np.ndarray) -> tuple[str, ...]:
        """The status of some evaluations, as words."""
        return tuple(STATUSES[k] for k in self.status[rows].tolist())


def available(kind: str | None = None, folder: Path = FOLDER) -> list[str]:
    """Names of the learners that have records, sorted.

    Args:
        kind: "classification" or "regression"; None for both.
        folder: folder of the data files.
    """
    files = folder.glob(f"*.{kind or '*'}.npz")
    return sorted({path.name.split(".")[0] for path in files})


def read_records(learner: str, kind: str, folder: Path = FOLDER) -> Records:
    """Read the records of a learner. They are kept in memory.

    Args:
        learner: one of `available(kind)`.
        kind: "classification" or "regression".
        folder: folder of the data files.

    Raises:
        UnknownNameError: there are no such records.
        ArchiveError: a file is damaged or of another version.
    """
    check_name("kind", kind, KINDS)
    check_name("built-in past", learner, available(kind, folder))
    return _read(learner, kind, folder)


@lru_cache(maxsize=8)
def _read(learner: str, kind: str, folder: Path) -> Records:
    path = folder / f"{learner}.{kind}.npz"
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        header = json.loads(arrays["header"].tobytes())
        if header["format"] != FORMAT:
            raise ArchiveError(
                f"{path} has format {header['format']} and this version of rankwise reads format "
                f"{FORMAT}; install the package again"
            )
        known = dataset_facts(folder)[kind]
        learnt: dict[str, dict[str, Array]] = {}
        for name, array in arrays.items():
            if name.startswith("learnt."):
                _, metric, what = name.split(".", 2)
                learnt.setdefault(metric, {})[what] = array
        return Records(
            learner,
            kind,
            tuple(
                Hyperparameter(**{**hp, "choices": tuple(hp.get("choices", ()))})
                for hp in header["hyperparameters"]
            ),
            tuple(header["datasets"]),
            np.cumsum(arrays["sizes"].astype(int)),
            arrays["values"].astype(float),
            dict(zip(header["metrics"], arrays["scores"].astype(float), strict=True)),
            header["metrics"],
            arrays["status"],
            arrays["seconds"].astype(float),
            learnt,
            header["exam"],
            header["similarity"],
            {name: known[name]["context"] for name in header["datasets"]},
            {name: known[name]["group"] for name in header["datasets"]},
        )
    except (
        OSError,
        ValueError,
        KeyError,
        TypeError,
        EOFError,
        zipfile.BadZipFile,
        zlib.error,
    ) as e:
        if isinstance(e, ArchiveError):
            raise
        raise ArchiveError(
            f"the built-in past in {path} is damaged ({type(e).__name__}: {e}); install the "
            "package again"
        ) from e


@lru_cache(maxsize=2)
def dataset_facts(folder: Path = FOLDER) -> dict[str, dict[str, dict[str, Any]]]:
    """Facts about the data sets by kind and name: size, source, licence, context and group.

    Data sets with the same `group` are near-duplicates; one must not be used to test another.

    Raises:
        ArchiveError: the file is missing or damaged.
    """
    path = folder / DATASETS
    try:
        facts: dict[str, dict[str, dict[str, Any]]] = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ArchiveError(f"{path} is damaged ({error}); install the package again") from error
    return facts
