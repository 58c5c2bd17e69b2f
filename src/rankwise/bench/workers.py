"""workers: runs the jobs of a benchmark in local processes, on Dask or on Ray."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import joblib

from rankwise._core.extras import missing
from rankwise.errors import OptionError

T = TypeVar("T")
Map = Callable[[Callable[..., T], Iterable[tuple[Any, ...]]], Iterator[T]]
"""Calls a function with each tuple of arguments; yields the results as they finish."""

_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@contextmanager
def workers(jobs: int, backend: str) -> Iterator[Map[Any]]:
    """Start or connect to the workers of a backend; yields a parallel map.

    Args:
        jobs: number of local processes.
        backend: "" for local processes, "dask://host:port", or "ray".

    Raises:
        OptionError: there is no such backend.
        MissingPackageError: its package is not installed.
    """
    for variable in _THREADS:  # read by new processes when they import NumPy
        os.environ.setdefault(variable, "1")
    kind, _, address = backend.partition("://")
    if not backend:
        with joblib.parallel_config(backend="loky", n_jobs=jobs, inner_max_num_threads=1):
            yield _joblib_map
    elif kind == "dask" and address:
        try:
            from distributed import Client
        except ImportError as error:
            raise missing("running on Dask", "distributed", "dask") from error
        client = Client(f"tcp://{address}")  # type: ignore[no-untyped-call]
        with client, joblib.parallel_config(backend="dask"):
            yield _joblib_map
    elif backend == "ray":
        with _ray() as ray_map:
            yield ray_map
    else:
        raise OptionError(f"a backend is dask://host:port or ray, not {backend!r}")


def _joblib_map(function: Callable[..., T], arguments: Iterable[tuple[Any, ...]]) -> Iterator[T]:
    parallel = joblib.Parallel(
        return_as="generator_unordered", batch_size=1, pre_dispatch="2*n_jobs"
    )
    yield from parallel(joblib.delayed(function)(*words) for words in arguments)


@contextmanager
def _ray() -> Iterator[Map[Any]]:
    """Ray's own tasks: its backend for joblib cannot return results as they finish.

    The cluster is that of the variable RAY_ADDRESS; without it Ray looks for one on this machine
    and otherwise starts one.
    """
    try:
        import ray  # type: ignore[import-not-found]
    except ImportError as error:
        raise missing("running on Ray", "ray", "ray") from error
    connects = not ray.is_initialized()
    if connects:
        ray.init(log_to_driver=False)
    try:

        def ray_map(
            function: Callable[..., T], arguments: Iterable[tuple[Any, ...]]
        ) -> Iterator[T]:
            remote = ray.remote(num_cpus=1)(function)
            most = 2 * max(1, int(ray.cluster_resources().get("CPU", 1)))
            running: list[Any] = []
            for words in arguments:
                running.append(remote.remote(*words))
                if len(running) >= most:
                    [done], running = ray.wait(running, num_returns=1)
                    yield ray.get(done)
            while running:
                [done], running = ray.wait(running, num_returns=1)
                yield ray.get(done)

        yield ray_map
    finally:
        if connects:
            ray.shutdown()
