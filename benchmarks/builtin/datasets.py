"""Data sets of the corpus: loading, sub-sampling, folds and descriptions.

Rows stay in memory. Files of results hold names, counts and numbers about a data set only.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import KFold, StratifiedKFold

from benchmarks.builtin.library import CLASSIFICATION, REGRESSION, context_numbers, significant

FOLDERS = {CLASSIFICATION: "tabular", REGRESSION: "tabular-regression"}
SEED = 0


@dataclass(frozen=True)
class DataSet:
    """A table and its target.

    Attributes:
        name: name of the file without its ending.
        kind: "classification" or "regression".
        X: (n, p) numbers; nominal columns are one-hot encoded in the source files.
        y: (n,) codes of classes 0, 1, ... or numbers.
        nominal: (p,) True for columns that encode a nominal one.
    """

    name: str
    kind: str
    X: pd.DataFrame
    y: np.ndarray
    nominal: np.ndarray

    @cached_property
    def classes(self) -> int:
        """Number of classes; 0 for a regression."""
        return int(self.y.max()) + 1 if self.kind == CLASSIFICATION else 0

    def sample(self, rows: int, folds: int) -> DataSet:
        """At most `rows` rows, drawn with a fixed seed.

        Classes keep their shares, except that each keeps at least two rows per fold if it has
        them. The largest class makes room for them.
        """
        if len(self.y) <= rows:
            return self
        # zlib.crc32 is the same in every process, unlike hash().
        order = np.random.default_rng([SEED, zlib.crc32(self.name.encode())]).permutation(
            len(self.y)
        )
        if self.kind == REGRESSION:
            return self._some(np.sort(order[:rows]))
        counts = np.bincount(self.y, minlength=self.classes)
        least = np.minimum(counts, 2 * folds)
        quota = np.maximum(np.round(counts * rows / len(self.y)).astype(int), least)
        quota[np.argmax(quota)] -= quota.sum() - rows
        drawn = [order[self.y[order] == k][: quota[k]] for k in range(self.classes)]
        return self._some(np.sort(np.concatenate(drawn)))

    def splits(self, folds: int) -> list[tuple[np.ndarray, np.ndarray]]:
        """Training and test rows of each fold, with a fixed seed."""
        splitter = StratifiedKFold if self.kind == CLASSIFICATION else KFold
        return list(splitter(folds, shuffle=True, random_state=SEED).split(self.X, self.y))

    def _some(self, rows: np.ndarray) -> DataSet:
        X = self.X.iloc[rows].reset_index(drop=True)
        return DataSet(self.name, self.kind, X, self.y[rows], self.nominal)


def names_in(data: Path, kind: str) -> list[str]:
    """Names of the data sets of a kind, sorted."""
    return sorted(path.stem for path in (data / FOLDERS[kind]).glob("*.npz"))


def load(data: Path, kind: str, name: str) -> DataSet:
    """Read a data set of the folder `data`."""
    with np.load(data / FOLDERS[kind] / f"{name}.npz", allow_pickle=False) as file:
        X = pd.DataFrame(file["X"].astype(float), columns=_unique(file["feature_names"]))
        y, nominal = file["y"], file["cat"].astype(bool)
    if kind == CLASSIFICATION:
        y = np.unique(y, return_inverse=True)[1]
    return DataSet(name, kind, X, y.astype(np.int64 if kind == CLASSIFICATION else float), nominal)


def manifest(data: Path, kind: str) -> dict[str, dict[str, Any]]:
    """Source and licence of each data set by its name; empty if there is no manifest."""
    path = data / FOLDERS[kind] / "manifest.json"
    if not path.exists():
        return {}
    return {entry["name"]: entry for entry in json.loads(path.read_text())}


def describe(
    data: Path, kind: str, name: str, entry: dict[str, Any], rows: int, folds: int
) -> dict[str, Any]:
    """Everything that is written about a data set.

    `context` describes the rows that were evaluated, `context_all` all rows of the file.
    """
    whole = load(data, kind, name)
    some = whole.sample(rows, folds)
    target = {}
    if kind == REGRESSION:
        target = {"mean": significant(some.y.mean()), "deviation": significant(some.y.std())}
    return {
        "dataset": name,
        "kind": kind,
        "n": len(whole.y),
        "n_used": len(some.y),
        "n_source": entry.get("n_full", len(whole.y)),
        "p": whole.X.shape[1],
        "p_nominal": int(whole.nominal.sum()),
        "classes": whole.classes,
        "target": target,
        "source": entry.get("source", ""),
        "licence": entry.get("licence", ""),
        "context": _rounded(context_numbers(some.X, some.y, kind)),
        "context_all": _rounded(context_numbers(whole.X, whole.y, kind)),
    }


def _rounded(numbers: dict[str, float]) -> dict[str, float]:
    return {name: significant(value) for name, value in numbers.items()}


def _unique(names: np.ndarray) -> list[str]:
    """Column names without repetition."""
    seen: dict[str, int] = {}
    unique = []
    for name in map(str, names):
        seen[name] = seen.get(name, 0) + 1
        unique.append(name if seen[name] == 1 else f"{name}.{seen[name]}")
    return unique
