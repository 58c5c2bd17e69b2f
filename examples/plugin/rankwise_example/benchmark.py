"""A benchmark: four parabolas, two to learn from and two to optimise."""

from pathlib import Path

import numpy as np

from rankwise.bench import Benchmark, TableProblem
from rankwise.bench.benchmarks import Source
from rankwise.history.task import Task
from rankwise.space.encoder import Encoder

CENTRES = {"a": 0.2, "b": 0.3, "c": 0.25, "d": 0.35}


def load(folder: Path | None) -> Benchmark:
    """The benchmark; it needs no data folder."""
    X = np.linspace(0, 1, 50)[:, None]
    losses = {name: (X[:, 0] - centre) ** 2 for name, centre in CENTRES.items()}
    return Benchmark(
        "example-bowls",
        Encoder({"x": (0.0, 1.0)}),
        ("a", "b"),
        (),
        ("c", "d"),
        lambda name: TableProblem.of(name, X, losses[name]),
        lambda name: Task.of(X, losses[name], name=name),
    )


BOWLS = Source("example-bowls", "four parabolas", load)
