"""The one table from a benchmark's name to where it comes from."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from rankwise.bench.base import MODIFIERS, Benchmark
from rankwise.errors import BenchmarkDataError, UnknownNameError

DATA_VARIABLE = "RANKWISE_DATA"


@dataclass(frozen=True)
class Source:
    """A row of the table.

    Attributes:
        name: what users write.
        summary: what it is, in a line.
        load: makes the benchmark; its argument is the data folder, None if there is none. It
            raises `BenchmarkDataError` with a sentence about what is missing or wrong.
    """

    name: str
    summary: str
    load: Callable[[Path | None], Benchmark]


def available() -> list[str]:
    """The names of all benchmarks, whether what they need is there or not.

    HPO-B's search spaces are not among them: their names are their ids, such as "5860".
    """
    return list(_table())


def get(name: str) -> Source:
    """The row of that name; digits name a search space of HPO-B."""
    table = _table()
    if name in table:
        return table[name]
    if name.isdigit():
        from rankwise.bench.hpob import space_source

        return space_source(name)
    raise UnknownNameError("benchmark", name, table, "Digits name a search space of HPO-B.")


@lru_cache(maxsize=8)
def load(spec: str, data: Path | None = None) -> Benchmark:
    """The benchmark of a text: a name, maybe followed by modifiers, as in "tst-svm:validation".

    Args:
        spec: the text. HPO-B's spaces take a mode of its handler as the first modifier, as in
            "5860:v2".
        data: folder of the data files; by default what the environment variable `RANKWISE_DATA`
            says.

    Raises:
        UnknownNameError: there is no such benchmark or modifier.
        BenchmarkDataError: what it needs is missing or damaged.
    """
    name, *modifiers = spec.split(":")
    source = get(name)
    folder = data_folder(data)
    if modifiers and name.isdigit() and modifiers[0] not in MODIFIERS:
        from rankwise.bench.hpob import space_source

        source = space_source(name, modifiers.pop(0))
    benchmark = source.load(folder)
    for modifier in modifiers:
        benchmark = benchmark.modified(modifier)
    return benchmark


def data_folder(data: Path | None = None) -> Path | None:
    """The folder given, or the one that the environment names, or None."""
    if data is None and os.environ.get(DATA_VARIABLE):
        data = Path(os.environ[DATA_VARIABLE])
    if data is not None and not data.is_dir():
        raise BenchmarkDataError(f"there is no data folder {data}")
    return data


@lru_cache(maxsize=1)
def _table() -> dict[str, Source]:
    from rankwise.bench import hpob, simple, synthetic, tables, yahpo

    modules = (tables, hpob, simple, yahpo, synthetic)
    return {source.name: source for module in modules for source in module.SOURCES}
