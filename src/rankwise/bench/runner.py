"""Runs benchmarks: every cell once, in many processes, interrupted as often as it happens."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

import joblib
from filelock import Timeout
from threadpoolctl import threadpool_limits

from rankwise import methods
from rankwise.bench import registry
from rankwise.bench.base import INITIAL, Benchmark
from rankwise.bench.cells import Cell, write_json
from rankwise.bench.display import Display
from rankwise.bench.environment import environment
from rankwise.bench.protocol import run as run_problem
from rankwise.cache import learnt_optimizer
from rankwise.errors import BenchmarkDataError, OptionError, check_count
from rankwise.optimizer import Optimizer

DONE, BUSY, FAILED, UNWRITTEN = "done", "busy", "failed", "unwritten"
_SEED = "learning_seed"
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@dataclass(frozen=True)
class Outcome:
    """What became of a job: one of the words above, and the error if there was one."""

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
    """Run every method on every task of every benchmark, as far as there is no result yet.

    What is finished is never computed again; a cell that failed is tried again. Several
    runners may share a folder.

    Args:
        benchmarks: names with modifiers, such as "tst-svm:validation".
        method_names: names with options, such as "dre:epochs=100".
        seeds: of the runs.
        trials: evaluations after the initial points.
        initial: given points to begin with, 0 to 5.
        out: folder of the results.
        data: folder of the data files; see `registry.load`.
        jobs: cells at the same time, each in a process with one thread.
        backend: "" for processes here, "dask://host:port", or "ray".
        progress: show a bar; by default if standard error is a terminal, else a line now and then.

    Returns:
        All cells of the run, with or without a result.

    Raises:
        UnknownNameError, OptionError: something that was asked for does not exist.
        BenchmarkDataError: data are missing or damaged, or results cannot be written.
    """
    check_count("trials", trials)
    if initial not in range(INITIAL + 1):
        raise OptionError(f"a run begins with 0 to {INITIAL} given points, not {initial!r}")
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
    with _workers(jobs, backend), Display(progress, len(todo)) as display:
        first = {_learnt_key(c, folder): c for c in reversed(todo)}
        learning = [c for c in first.values() if methods.get(methods.split(c.method)[0]).transfer]
        for cell, outcome in _parallel(_prepare, learning[::-1], out, folder):
            _stop_if_unwritten(outcome)
            display.learnt(cell, len(learning))
        busy = todo
        while busy:  # cells of another runner; one of them may have been killed
            waiting, busy = busy, []
            for cell, outcome in _parallel(_compute, waiting, out, folder):
                _stop_if_unwritten(outcome)
                if outcome.state == BUSY:
                    busy.append(cell)
                else:
                    display.advance(cell, outcome.error)
    return cells


def split_methods(text: str) -> list[str]:
    """The methods of a list in which commas separate methods and also options of a method."""
    found: list[str] = []
    for piece in filter(None, (part.strip() for part in text.split(","))):
        if "=" in piece and ":" not in piece and found:
            found[-1] += f"{',' if ':' in found[-1] else ':'}{piece}"
        else:
            found.append(piece)
    return list(dict.fromkeys(found))


def check_method(text: str) -> None:
    """Raise an error if the method or an option does not exist, or a value makes no sense."""
    methods.check_values(*methods.split(text))


# ---------------------------------------------------------------------- in the workers


def _compute(cell: Cell, out: Path, data: Path | None) -> Outcome:
    """Run a cell and write its result, unless it has one or another process is at it."""
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
    """Learn what the cell needs, so that those that need the same need not wait for it."""
    try:
        with threadpool_limits(1):
            _optimizer(cell, out, data)
    except BenchmarkDataError as error:
        return Outcome(UNWRITTEN, str(error))
    except Exception as error:  # the cells will meet it again and record it
        return Outcome(FAILED, str(error))
    return Outcome(DONE)


def _benchmark(cell: Cell, data: Path | None) -> Benchmark:
    return registry.load(cell.benchmark, data)


def _learnt_key(cell: Cell, data: Path | None) -> tuple[str, str, str, int | None]:
    """Equal for cells that need the same model."""
    name, options = methods.split(cell.method)
    random = _SEED in methods.get(name).options and _SEED not in options
    key = _benchmark(cell, data).past_key(cell.task)
    return cell.benchmark, cell.method, key, cell.seed if random else None


def _optimizer(cell: Cell, out: Path, data: Path | None) -> Optimizer:
    return _learnt(*_learnt_key(cell, data), out, data)


@lru_cache(maxsize=2)  # cells come sorted: many in a row need the same
def _learnt(
    benchmark: str, method: str, key: str, seed: int | None, out: Path, data: Path | None
) -> Optimizer:
    """The optimizer of a method for all tasks with the same past.

    A model that learning leaves to chance is learnt anew for every seed: its luck must not decide
    all runs of a benchmark.
    """
    source = registry.load(benchmark, data)
    name, options = methods.split(method)
    if seed is not None:
        options[_SEED] = seed
    past = source.past(key or source.test[0])
    return learnt_optimizer(name, source.encoder, past, out / "models", **options)


# ---------------------------------------------------------------------- around them


def _parallel(
    function: Callable[[Cell, Path, Path | None], Outcome],
    cells: Sequence[Cell],
    out: Path,
    data: Path | None,
) -> Iterator[tuple[Cell, Outcome]]:
    """Each cell with its outcome, as they come."""
    jobs: Iterable[Any] = (
        joblib.delayed(_numbered)(k, function, cell, out, data) for k, cell in enumerate(cells)
    )
    parallel = joblib.Parallel(
        return_as="generator_unordered", batch_size=1, pre_dispatch="2*n_jobs"
    )
    for k, outcome in parallel(jobs):
        yield cells[k], outcome


def _numbered(
    k: int,
    function: Callable[[Cell, Path, Path | None], Outcome],
    cell: Cell,
    out: Path,
    data: Path | None,
) -> tuple[int, Outcome]:
    return k, function(cell, out, data)


@contextmanager
def _workers(jobs: int, backend: str) -> Iterator[None]:
    """Where joblib runs what follows."""
    for variable in _THREADS:  # read by new processes when they import NumPy
        os.environ.setdefault(variable, "1")
    if not backend:
        with joblib.parallel_config(backend="loky", n_jobs=jobs, inner_max_num_threads=1):
            yield
        return
    kind, _, address = backend.partition("://")
    if kind == "dask" and address:
        try:
            from distributed import Client
        except ImportError as error:
            raise OptionError(
                'running on Dask needs its package: pip install "rankwise[dask]"'
            ) from error
        client = Client(f"tcp://{address}")  # type: ignore[no-untyped-call]
        with client, joblib.parallel_config(backend="dask"):
            yield
    elif backend == "ray":
        try:
            from ray.util.joblib import register_ray  # type: ignore[import-not-found]
        except ImportError as error:
            raise OptionError(
                'running on Ray needs its package: pip install "rankwise[ray]"'
            ) from error
        register_ray()
        with joblib.parallel_config(backend="ray", n_jobs=-1):
            yield
    else:
        raise OptionError(f"a backend is dask://host:port or ray, not {backend!r}")


def _stop_if_unwritten(outcome: Outcome) -> None:
    if outcome.state == UNWRITTEN:
        raise BenchmarkDataError(outcome.error)


def _note(out: Path, cells: Sequence[Cell], jobs: int, backend: str) -> None:
    """Record what was asked for, and where it ran: the report shows both."""
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
