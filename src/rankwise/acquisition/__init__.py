"""Acquisition functions and how they are maximized."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankwise._core.lazy import lazy_names

if TYPE_CHECKING:
    from rankwise.acquisition.functions import (
        Acquisition,
        Ensemble,
        ExpectedImprovement,
        ExpectedImprovementPerSecond,
        LowerConfidenceBound,
        Mean,
        ProbabilityOfImprovement,
        Thompson,
        available,
        make_acquisition,
        times_dominated,
    )
    from rankwise.acquisition.maximizer import Maximizer

__all__ = [
    "Acquisition",
    "Ensemble",
    "ExpectedImprovement",
    "ExpectedImprovementPerSecond",
    "LowerConfidenceBound",
    "Maximizer",
    "Mean",
    "ProbabilityOfImprovement",
    "Thompson",
    "available",
    "make_acquisition",
    "times_dominated",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Acquisition": "acquisition.functions",
        "Ensemble": "acquisition.functions",
        "ExpectedImprovement": "acquisition.functions",
        "ExpectedImprovementPerSecond": "acquisition.functions",
        "LowerConfidenceBound": "acquisition.functions",
        "Maximizer": "acquisition.maximizer",
        "Mean": "acquisition.functions",
        "ProbabilityOfImprovement": "acquisition.functions",
        "Thompson": "acquisition.functions",
        "available": "acquisition.functions",
        "make_acquisition": "acquisition.functions",
        "times_dominated": "acquisition.functions",
    },
)
