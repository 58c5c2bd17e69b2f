"""Task: one data set's history of evaluated configurations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rankwise.errors import check_name
from rankwise.types import Array, Mask

OK = "ok"
FAILED = "failed"  # the objective raised
INVALID = "invalid"  # it returned NaN, an infinity or something that is not a number
TIMEOUT = "timeout"  # it took too long
STATUSES = (OK, FAILED, INVALID, TIMEOUT)

_MARGIN = 0.1  # how far beyond the worst loss a failure is put, in units of the losses' range


@dataclass(frozen=True)
class Task:
    """Encoded configurations and what came of them; smaller losses are better.

    Attributes:
        X: configurations (n, d) in the unit cube.
        y: losses (n,); NaN where the evaluation has no usable loss.
        cost: seconds (n,) that each evaluation took; NaN where unknown.
        status: what became of each evaluation, one of `STATUSES`.
        name: of the task.
    """

    X: Array
    y: Array
    cost: Array
    status: tuple[str, ...]
    name: str = ""

    @classmethod
    def of(
        cls,
        X: Array,
        y: Array | Sequence[float],
        cost: Array | Sequence[float] | None = None,
        status: Sequence[str] | None = None,
        name: str = "",
    ) -> Task:
        """A checked task; losses that are not finite become `INVALID` if no status says more."""
        X = np.atleast_2d(np.asarray(X, dtype=float))
        y = np.asarray(y, dtype=float).reshape(-1)
        if len(X) != len(y):
            raise ValueError(f"X has {len(X)} rows and y has {len(y)}")
        finite = np.isfinite(y)
        if status is None:
            status = [OK if f else INVALID for f in finite]
        for s in status:
            check_name("status", s, STATUSES)
        seconds = np.full(len(y), np.nan) if cost is None else np.asarray(cost, dtype=float)
        for what, values in (("status", status), ("cost", seconds)):
            if len(values) != len(y):
                raise ValueError(f"{what} has {len(values)} entries and y has {len(y)}")
        usable = finite & np.array([s == OK for s in status], dtype=bool)
        return cls(X, np.where(usable, y, np.nan), seconds, tuple(status), name)

    def __len__(self) -> int:
        return len(self.y)

    @property
    def ok(self) -> Mask:
        """Which evaluations (n,) have a loss."""
        return ~np.isnan(self.y)

    @property
    def losses(self) -> Array:
        """Losses (n,) with every failure imputed: the worst loss seen plus a margin.

        A failure is bad news, not missing news: a model that never sees it would go back there.
        """
        return impute(self.y)

    def extended(self, X: Array, y: float) -> Task:
        """This task with some more configurations X (m, d), all of loss y (a lie)."""
        m = len(X)
        return Task(
            np.concatenate([self.X, X]),
            np.concatenate([self.y, np.full(m, y)]),
            np.concatenate([self.cost, np.full(m, np.nan)]),
            self.status + (OK,) * m,
            self.name,
        )


def impute(y: Array) -> Array:
    """Losses (n,) with NaN replaced by the worst one plus a tenth of their range."""
    missing = np.isnan(y)
    if not missing.any():
        return y
    if missing.all():
        return np.zeros_like(y)
    worst, best = float(np.max(y[~missing])), float(np.min(y[~missing]))
    margin = _MARGIN * (worst - best) if worst > best else max(_MARGIN * abs(worst), 1e-3)
    if not np.isfinite(worst + margin):  # losses near the largest float
        margin = 0.0
    return np.where(missing, worst + margin, y)
