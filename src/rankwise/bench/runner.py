"""Runner of benchmarks: computes all cells in parallel processes and can be resumed."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

from filelock import Timeout
from threadpoolctl import threadpool_limits

from rankwise import methods
from rankwise._core.environment import environment
from rankwise.bench import benchmarks as registry
from rankwise.bench.base import INITIAL, Benchmark
from rankwise.bench.cells import Cell, write_json
from rankwise.bench.progress_lines import Display
from rankwise.bench.protocol import run as run_problem
from rankwise.bench.workers import Map, workers
from rankwise.errors import BenchmarkDataError, OptionError, check_count
from rankwise.methods import added as added_methods
from rankwise.run.model_cache import learnt_optimizer
from rankwise.run.optimizer import Optimizer

DONE, BUSY, FAILED, UNWRITTEN = "done", "busy", "failed", "unwritten"
_SEED = "learning_seed"


@dataclass(frozen=True)
class Outcome:
    """Result of a job: `DONE`, `BUSY`, `FAILED` or `UNWRITTEN`, and the error if there was one."""

    state: str
    error: str = ""


def run(
    benchmarks: Sequence[str],
    method_names: Sequence[str],
    *,
    seeds: Sequence[int] = range(5),
    trials: int = 50,
    initial: int = INITIAL,
    out: Path = Path("runs/bench"),
    data: Path | None = None,
    jobs: int = 1,
    backend: str = "",
    progress: bool | None = None,
) -> list[Cell]:
    """Run every method on every task of every benchmark.

    Finished cells are not computed again; failed cells are tried again. Several runners can use
    the same folder at the same time.

    Args:
        benchmarks: names with modifiers, such as "tst-svm:validation".
        method_names: names with options, such as "dre:epochs=100".
        seeds: seeds of the runs.
        trials: number of evaluations after the initial points.
        initial: number of given initial points, 0 to 5.
        out: folder of the results.
        data: folder of the data files; see `benchmarks.load`.
        jobs: number of parallel processes, each with one thread; -1 for all cores.
        backend: "" for local processes, "dask://host:port", or "ray".
        progress: True for a progress bar, False for a line every 30 seconds; by default a bar if
            standard error is a terminal.

    Returns:
        All cells of the run, with or without a result.

    Raises:
        UnknownNameError, OptionError: a benchmark, method or option is unknown or invalid.
        BenchmarkDataError: data are missing or damaged, or results cannot be written.
    """
    check_count("trials", trials)
    if initial not in range(INITIAL + 1):
        raise OptionError(f"a run begins with 0 to {INITIAL} initial points, not {initial!r}")
    for name in method_names:
        check_method(name)
    folder = registry.data_folder(data)
    folder = None if folder is None else folder.resolve()
    out = out.resolve()
    loaded = [registry.load(name, folder) for name in benchmarks]
    cells = [
        Cell(benchmark.name, task, method, int(seed), initial, trials)
        for benchmark, method, seed in product(loaded, method_names, seeds)
        for task in benchmark.test
    ]
    _note(out, cells, jobs, backend)
    todo = [cell for cell in cells if not cell.is_done(out)]
    with workers(jobs, backend) as parallel, Display(progress, len(todo)) as display:
        first = {_learnt_key(c, folder): c for c in reversed(todo)}
        learning = [c for c in first.values() if methods.get(methods.split(c.method)[0]).transfer]
        for cell, outcome in _each(parallel, _prepare, learning[::-1], out, folder):
            _stop_if_unwritten(outcome)
            display.learnt(cell, len(learning))
        busy = todo
        while busy:  # another runner has these cells; try again, because it may be killed
            waiting, busy = busy, []
            for cell, outcome in _each(parallel, _compute, waiting, out, folder):
                _stop_if_unwritten(outcome)
                if outcome.state == BUSY:
                    busy.append(cell)
                else:
                    display.advance(cell, outcome.error)
    return cells


def split_methods(text: str) -> list[str]:
    """Split a list of methods, in which commas separate methods and options of a method.

    A part with "=" and without ":" is an option of the method before it.
    """
    found: list[str] = []
    for piece in filter(None, (part.strip() for part in text.split(","))):
        if "=" in piece and ":" not in piece and found:
            found[-1] += f"{',' if ':' in found[-1] else ':'}{piece}"
        else:
            found.append(piece)
    return list(dict.fromkeys(found))


def check_method(text: str) -> None:
    """Check a method with options, such as "dre:epochs=100".

    Raises:
        UnknownNameError, OptionError: the method or an option is unknown, or a value is invalid.
    """
    methods.check_values(*methods.split(text))


# ---------------------------------------------------------------------- in the workers


def _compute(cell: Cell, out: Path, data: Path | None) -> Outcome:
    """Run a cell and write its result.

    Nothing happens if the cell already has a result, or if another process is running it.
    """
    lock = cell.lock(out)
    try:
        with lock.acquire(timeout=0):
            if cell.is_done(out):
                return Outcome(DONE)
            return _compute_locked(cell, out, data)
    except Timeout:
        return Outcome(BUSY)


def _compute_locked(cell: Cell, out: Path, data: Path | None) -> Outcome:
    error, times = "", None
    try:
        with threadpool_limits(1):
            problem = _benchmark(cell, data).problem(cell.task)
            optimizer = _optimizer(cell, out, data)
            trace = run_problem(
                problem, optimizer, seed=cell.seed, initial=cell.initial, trials=cell.trials
            )
        result: dict[str, Any] = {
            "points": trace.points,
            "losses": trace.losses,
            "regrets": trace.regrets,
            "fallbacks": trace.fallbacks,
        }
        times = {"seconds": trace.seconds, **environment()}
    except Exception as problem_:  # one bad cell must not end the run; the report shows it
        error = f"{type(problem_).__name__}: {problem_}"
        result = {"error": traceback.format_exc()}
    try:
        cell.write(out, result, times)
    except BenchmarkDataError as problem_:
        return Outcome(UNWRITTEN, str(problem_))
    return Outcome(FAILED if error else DONE, error)


def _prepare(cell: Cell, out: Path, data: Path | None) -> Outcome:
    """Learn and save the model that a cell needs, so that later cells only load it."""
    try:
        with threadpool_limits(1):
            _optimizer(cell, out, data)
    except BenchmarkDataError as error:
        return Outcome(UNWRITTEN, str(error))
    except Exception as error:  # it happens again in the cells, which record it
        return Outcome(FAILED, str(error))
    return Outcome(DONE)


def _benchmark(cell: Cell, data: Path | None) -> Benchmark:
    return registry.load(cell.benchmark, data)


def _learnt_key(cell: Cell, data: Path | None) -> tuple[str, str, str, int | None]:
    """Return a key that is equal for cells that need the same model."""
    name, options = methods.split(cell.method)
    random = _SEED in methods.get(name).options and _SEED not in options
    key = _benchmark(cell, data).past_key(cell.task)
    return cell.benchmark, cell.method, key, cell.seed if random else None


def _optimizer(cell: Cell, out: Path, data: Path | None) -> Optimizer:
    return _learnt(*_learnt_key(cell, data), out, data)


@lru_cache(maxsize=2)  # consecutive cells usually need the same model
def _learnt(
    benchmark: str, method: str, key: str, seed: int | None, out: Path, data: Path | None
) -> Optimizer:
    """Return the optimizer of a method for all target tasks with the same source tasks.

    If learning uses random numbers, each seed of the benchmark gets its own model. So one lucky
    or unlucky model does not decide all runs.
    """
    source = registry.load(benchmark, data)
    name, options = methods.split(method)
    if seed is not None:
        options[_SEED] = seed
    past = source.past(key or source.test[0])
    return learnt_optimizer(name, source.encoder, past, out / "models", **options)


# ---------------------------------------------------------------------- around them


def _each(
    parallel: Map[tuple[int, Outcome]],
    function: Callable[[Cell, Path, Path | None], Outcome],
    cells: Sequence[Cell],
    out: Path,
    data: Path | None,
) -> Iterator[tuple[Cell, Outcome]]:
    """Call a function for all cells in parallel; yield cells and outcomes as they finish."""
    given = (dict(added_methods.added()), dict(registry.added()))
    jobs = ((k, function, cell, out, data, given) for k, cell in enumerate(cells))
    for k, outcome in parallel(_numbered, jobs):
        yield cells[k], outcome


def _numbered(
    k: int,
    function: Callable[[Cell, Path, Path | None], Outcome],
    cell: Cell,
    out: Path,
    data: Path | None,
    given: tuple[dict[str, methods.Method], dict[str, registry.Source]],
) -> tuple[int, Outcome]:
    """Call a function for a cell in a worker process; return its number and outcome.

    Args:
        k: number of the cell.
        function: function to call.
        cell: the cell.
        out: folder of the results.
        data: folder of the data files.
        given: methods and benchmarks that were registered in the main process, by name. A worker
            process does not have them.
    """
    added_methods.adopt(given[0])
    registry.adopt(given[1])
    return k, function(cell, out, data)


def _stop_if_unwritten(outcome: Outcome) -> None:
    if outcome.state == UNWRITTEN:
        raise BenchmarkDataError(outcome.error)


def _note(out: Path, cells: Sequence[Cell], jobs: int, backend: str) -> None:
    """Write the settings and the environment of a run to a file, for the report."""
    settings = {
        "benchmarks": {c.benchmark: [] for c in cells},
        "methods": list(dict.fromkeys(c.method for c in cells)),
        "seeds": sorted({c.seed for c in cells}),
        "initial": cells[0].initial if cells else 0,
        "trials": cells[0].trials if cells else 0,
        "jobs": jobs,
        "backend": backend,
    }
    for cell in cells:
        tasks = settings["benchmarks"][cell.benchmark]  # type: ignore[index]
        if cell.task not in tasks:
            tasks.append(cell.task)
    facts = {**environment(full=True), "settings": settings}
    write_json(out / "asked" / f"{facts['date'].replace(':', '-')}-{os.getpid()}.json", facts)
