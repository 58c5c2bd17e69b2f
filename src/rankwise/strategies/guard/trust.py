"""The guard's measure of usefulness: does the order of source tasks hold for the trials?

It combines two sources by Bayes' rule: how well source tasks predict each other's order, which is
known before the first trial, and how well they order the trials of the study.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from scipy.special import ndtr
from typing_extensions import Self

from rankwise.surrogates.empirical_bayes.past_functions import Lesson, SourcePast
from rankwise.surrogates.empirical_bayes.source_votes import pair_agreement
from rankwise.types import Array

USEFUL = 0.5
"""Kendall's tau from which an order is useful: three of four pairs are correct."""

_TURNED = 0.1  # prior probability that a study has the opposite order of source tasks
_OTHERS = 0.1  # prior probability that it is unrelated, so that every tau is equally likely
_LEAST_SPREAD = 0.05  # smallest standard deviation of tau between tasks
_TINY = 1e-9


@dataclass(frozen=True)
class Agreement:
    """Rank agreement between a predicted order and losses.

    Attributes:
        surplus: Kendall's S: number of concordant minus number of discordant pairs.
        pairs: number of pairs with different losses.
        deviation: standard deviation of S if all orders are equally likely.
    """

    surplus: float
    pairs: float
    deviation: float

    @property
    def tau(self) -> float:
        """Kendall's tau, from -1 to 1."""
        return self.surplus / max(self.pairs, 1.0)

    @property
    def error(self) -> float:
        """Standard deviation of `tau` if all orders are equally likely."""
        return self.deviation / max(self.pairs, 1.0)

    @property
    def score(self) -> float:
        """S in standard deviations: how much the order is better than chance."""
        return self.surplus / self.deviation


@dataclass(frozen=True)
class Expectation:
    """Prior distribution of the rank agreement between source tasks and a new study.

    It is a mixture: normal for a related study, the mirrored normal for a study with the opposite
    order, uniform on [-1, 1] for an unrelated study.

    Attributes:
        mean: mean tau of source tasks predicted by the other source tasks.
        spread: standard deviation of tau between tasks; infinite for an uninformative prior.
    """

    mean: float = 0.0
    spread: float = math.inf

    def __post_init__(self) -> None:
        if not (math.isfinite(self.mean) and self.spread > 0):
            raise ValueError(f"an expectation has a mean and a positive spread, not {self}")

    @classmethod
    def of(cls, lessons: Iterable[Lesson]) -> Self:
        """Estimate the prior from source tasks that are predicted by the other source tasks.

        Let v be the variance of their T values of tau, and e the part of it that comes from finite
        numbers of trials. The variance for the next task is max(v - e, 0) + max(v, e) / T plus
        `_LEAST_SPREAD` squared. A negative mean occurs if there are two opposite kinds of tasks;
        it is set to 0 and added to the spread.
        """
        found = [agreement(lesson.view.mean, lesson.scores) for lesson in lessons]
        if not found:
            return cls()
        taus = np.array([one.tau for one in found])
        error = float(np.mean([one.error**2 for one in found]))
        variance = float(taus.var(ddof=1)) if len(taus) > 1 else error
        next_one = max(variance - error, 0.0) + max(variance, error) / len(taus)
        mean = float(taus.mean())
        spread = math.sqrt(next_one + _LEAST_SPREAD**2)
        return cls(max(mean, 0.0), math.hypot(spread, min(mean, 0.0)))

    def usefulness(self, found: Agreement, *, opposite: bool = False) -> float:
        """Posterior probability that the order has a tau of at least `USEFUL`.

        Args:
            found: agreement of the order with the trials.
            opposite: True for the opposite order.
        """
        tau, error = (-found.tau if opposite else found.tau), found.error
        inside = _between(-1.0, 1.0, tau, error)
        anything = _between(USEFUL, 1.0, tau, error) / inside
        if math.isinf(self.spread):
            return anything
        mean = -self.mean if opposite else self.mean
        width = math.hypot(self.spread, error)
        # For each component: its posterior weight, and the probability of a useful order in it
        weights, shares = [_OTHERS * inside / 2.0], [anything]
        for probability, center in ((1.0 - _TURNED - _OTHERS, mean), (_TURNED, -mean)):
            weights.append(probability * _density(tau, center, width))
            settled = (center * error**2 + tau * self.spread**2) / width**2
            shares.append(float(ndtr((settled - USEFUL) / (self.spread * error / width))))
        return float(np.average(shares, weights=weights))


def _between(low: float, high: float, center: float, width: float) -> float:
    """Probability of an interval under a normal distribution."""
    return float(ndtr((high - center) / width) - ndtr((low - center) / width))


def _density(x: float, center: float, width: float) -> float:
    """Density of a normal distribution."""
    return math.exp(-0.5 * ((x - center) / width) ** 2) / (width * math.sqrt(2.0 * math.pi))


NOTHING_EXPECTED = Expectation()
"""Uninformative prior on rank agreement."""


@dataclass(frozen=True)
class Witnesses:
    """Predictions of source tasks that do not need the transfer method's own model.

    Attributes:
        functions: at most sixteen Gaussian processes that represent all source tasks; their mean
            orders configurations. None without source tasks.
        expectation: prior distribution of their rank agreement with a new study.
    """

    file_kind: ClassVar[str] = "witnesses"

    functions: SourcePast | None = None
    expectation: Expectation = NOTHING_EXPECTED

    def save(self, path: Path) -> None:
        """Write the object to a file that `load` reads.

        Raises:
            ModelFileError: the file cannot be written.
        """
        from rankwise.surrogates.model_files import write_model

        arrays, record = ({}, {}) if self.functions is None else self.functions.parts()
        expectation = asdict(self.expectation)
        write_model(path, self.file_kind, arrays, {**record, "expectation": expectation})

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read the object from a file that `save` wrote.

        Raises:
            ModelFileError: the file does not exist, is damaged, or contains something else.
        """
        from rankwise.surrogates.model_files import damaged_if_it_raises, read_model

        arrays, record = read_model(path, cls.file_kind)
        with damaged_if_it_raises(path):
            functions = SourcePast.from_parts(arrays, record).compact() if arrays else None
            found = cls(functions, Expectation(**record["expectation"]))
            if functions is not None:
                middle = np.full((1, arrays["X"].shape[1]), 0.5)
                if not all(np.isfinite(source(middle)).all() for source in functions.sources):
                    raise ValueError("its predictions are not numbers")
            return found


def agreement(foresight: Array, losses: Array) -> Agreement:
    """Compute the rank agreement between a predicted order and losses.

    Kendall's S, the number of concordant minus discordant pairs, has mean 0 and variance (1) if
    all orders are equally likely, with groups of t tied losses and of u tied predictions (Kendall,
    Rank Correlation Methods, chapter 4):

        (n(n-1)(2n+5) - sum t(t-1)(2t+5) - sum u(u-1)(2u+5)) / 18
        + sum t(t-1) sum u(u-1) / (2n(n-1))
        + sum t(t-1)(t-2) sum u(u-1)(u-2) / (9n(n-1)(n-2))                                      (1)

    If all losses or all predictions are tied, S is 0 with the variance of untied losses.

    Args:
        foresight: predictions (n,); the smallest is predicted to be the best.
        losses: observed losses (n,).
    """
    both = np.stack([foresight, -foresight], axis=1)
    (same, opposite), pairs = pair_agreement(both, losses)
    n = len(losses)
    t, u = (
        np.unique(values, return_counts=True)[1].astype(float) for values in (losses, foresight)
    )
    twos = [float((g * (g - 1)).sum()) for g in (t, u)]
    threes = [float((g * (g - 1) * (g - 2)).sum()) for g in (t, u)]
    ties = sum(float((g * (g - 1) * (2 * g + 5)).sum()) for g in (t, u))
    untied = n * (n - 1) * (2 * n + 5) / 18.0
    variance = untied - ties / 18.0
    variance += twos[0] * twos[1] / (2.0 * n * (n - 1)) if n > 1 else 0.0
    variance += threes[0] * threes[1] / (9.0 * n * (n - 1) * (n - 2)) if n > 2 else 0.0
    if variance <= _TINY:
        return Agreement(0.0, n * (n - 1) / 2.0, math.sqrt(untied) or 1.0)
    return Agreement(float(same - opposite), float(pairs), math.sqrt(variance))
