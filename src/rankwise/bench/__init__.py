"""Benchmarks: tasks from many sources, any method on them, and reports as the papers have them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankwise.lazy import lazy_names

if TYPE_CHECKING:
    from rankwise.bench.base import Benchmark, OpenProblem, Problem, TableProblem
    from rankwise.bench.cells import collect
    from rankwise.bench.handler import HpobMethod, hpob_method
    from rankwise.bench.published import read_published
    from rankwise.bench.registry import available, load
    from rankwise.bench.report import write_report
    from rankwise.bench.results import Run
    from rankwise.bench.runner import run

_HOMES = {
    "Benchmark": "base",
    "HpobMethod": "handler",
    "OpenProblem": "base",
    "Problem": "base",
    "Run": "results",
    "TableProblem": "base",
    "available": "registry",
    "collect": "cells",
    "hpob_method": "handler",
    "load": "registry",
    "read_published": "published",
    "run": "runner",
    "write_report": "report",
}
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

__getattr__ = lazy_names(__name__, _HOMES)


def __dir__() -> list[str]:
    return __all__
