"""next_row: the next configuration of a study, from its initial design or from its strategy.

`Optimizer` and `RankwiseSampler` both use it: with the same seed, the same strategy and the same
history they propose the same configuration.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rankwise.acquisition.maximizer import Seen
from rankwise.history.task import Task
from rankwise.space.design import Design
from rankwise.strategies.base import Strategy
from rankwise.types import Array

Propose = Callable[[Task, Array, np.random.Generator], Array]
"""Like `Strategy.propose`: history, pending rows (m, d) and random generator to a row (d,)."""

_DESIGN_STREAM = 2**32  # larger than every trial number: random numbers of the design


def trial_rng(seed: int, number: int, attempt: int = 0) -> np.random.Generator:
    """Return the random generator of one trial.

    Args:
        seed: seed of the study.
        number: number of the trial.
        attempt: number of proposals for this trial that were rejected before.
    """
    return np.random.default_rng([seed, number, attempt] if attempt else [seed, number])


def make_design(design: Design | None, strategy: Strategy, seed: int) -> Array:
    """Return the rows (n, d) of an initial design; no rows for None."""
    if design is None:
        return np.empty((0, strategy.encoder.n_columns))
    return design.make(strategy.opening, trial_rng(seed, _DESIGN_STREAM))


def next_row(
    propose: Propose,
    design: Array,
    number: int,
    history: Task,
    pending: Array,
    rng: np.random.Generator,
) -> tuple[Array, bool]:
    """Return the next configuration of a study.

    Args:
        propose: proposes if the initial design is finished.
        design: rows (n, d) of the initial design.
        number: number of the trial.
        history: the finished trials.
        pending: rows (m, d) of the trials that are running.
        rng: random generator for `propose`.

    Returns:
        A row (d,), and whether the trial is `Trial.shared`.

    Raises:
        SpaceExhausted: a finite space has no new configuration.
    """
    if number < len(design):
        # The row of the trial's number comes first, so that workers who do not see each other's
        # proposals yet begin with different ones.
        turned = np.roll(design, -number, axis=0)
        fresh = turned[Seen(history.X, pending).new(turned)]
        if len(fresh):
            return fresh[0], True
    return propose(history, pending, rng), len(pending) > 0
