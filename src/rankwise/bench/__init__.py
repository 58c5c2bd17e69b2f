"""Benchmarks: tasks from several sources, a runner for all methods, and statistical reports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankwise._core.lazy import lazy_names

if TYPE_CHECKING:
    from rankwise.bench.base import Benchmark, OpenProblem, Problem, TableProblem
    from rankwise.bench.benchmarks import available, load
    from rankwise.bench.cells import collect
    from rankwise.bench.hpob_handler import HpobMethod, hpob_method
    from rankwise.bench.published import read_published
    from rankwise.bench.report import write_report
    from rankwise.bench.results import Run
    from rankwise.bench.runner import run

__all__ = [
    "Benchmark",
    "HpobMethod",
    "OpenProblem",
    "Problem",
    "Run",
    "TableProblem",
    "available",
    "collect",
    "hpob_method",
    "load",
    "read_published",
    "run",
    "write_report",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Benchmark": "bench.base",
        "HpobMethod": "bench.hpob_handler",
        "OpenProblem": "bench.base",
        "Problem": "bench.base",
        "Run": "bench.results",
        "TableProblem": "bench.base",
        "available": "bench.benchmarks",
        "collect": "bench.cells",
        "hpob_method": "bench.hpob_handler",
        "load": "bench.benchmarks",
        "read_published": "bench.published",
        "run": "bench.runner",
        "write_report": "bench.report",
    },
)
