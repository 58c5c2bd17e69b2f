"""Distributions of `scipy.stats` as hyperparameters."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import ConfigSpace
import numpy as np

from rankwise.errors import SpaceError

_TAIL = 1e-4  # quantiles stay this far from 0 and 1, where many distributions are infinite
_PROBES = (0.1, 0.3, 0.5, 0.7, 0.9)
_SMALLEST_LOG = 1e-12  # smallest lower end of a logarithmic range, see `make_space`


def is_distribution(value: Any) -> bool:
    """True if an object is a distribution with the interface of `scipy.stats`."""
    return hasattr(value, "rvs") or hasattr(value, "icdf")


@dataclass(frozen=True)
class Quantile:
    """Maps a quantile to a value of a distribution."""

    distribution: Any

    def __call__(self, quantile: float) -> float:
        value = float(self._inverse(quantile))
        whole = hasattr(self.distribution, "pmf") and value.is_integer()
        return int(value) if whole else value

    @property
    def _inverse(self) -> Any:
        # `stats.norm(0, 1)` has ppf, the newer `stats.Normal()` has icdf.
        return getattr(self.distribution, "ppf", None) or self.distribution.icdf


def from_distribution(name: str, distribution: Any) -> tuple[Any, Quantile | None]:
    """Convert a distribution to a specification for `make_space`.

    Uniform, log-uniform and integer-uniform distributions become ranges. For any other
    distribution the hyperparameter is its quantile.

    Args:
        name: name of the hyperparameter.
        distribution: a frozen distribution (one whose arguments are given).

    Returns:
        The specification, and the map from quantiles to values; None for a range.

    Raises:
        SpaceError: the distribution has no quantiles.
    """
    quantile = Quantile(distribution)
    try:
        probes = [quantile(p) for p in _PROBES]
    except Exception as error:  # a user's distribution may raise anything
        raise _no_quantiles(name, distribution, error) from error
    if not np.all(np.isfinite(probes)) or probes != sorted(probes):
        raise _no_quantiles(name, distribution, f"they are {probes}")
    family = getattr(distribution, "dist", distribution)
    kind = getattr(family, "name", type(distribution).__name__)
    low, high = distribution.support()
    if kind == "randint":
        return ([int(low)] if low == high else (int(low), int(high))), None
    if kind == "uniform":
        return (float(low), float(high)), None
    # A distribution shifted by `loc` is not uniform on a log scale.
    if (
        kind in ("loguniform", "reciprocal")
        and low >= _SMALLEST_LOG
        and math.isclose(probes[2], math.sqrt(low * high), rel_tol=1e-9)
    ):
        return (float(low), float(high), "log"), None
    # Makes the fingerprint of the space depend on the distribution behind the quantile.
    meaning = f"{kind}({', '.join(f'{p:.6g}' for p in probes)})"
    spec = ConfigSpace.Float(name, (_TAIL, 1 - _TAIL), meta={"quantile_of": meaning})
    return spec, quantile


def _no_quantiles(name: str, distribution: Any, reason: object) -> SpaceError:
    return SpaceError(
        f"{name!r}: {type(distribution).__name__} has no usable quantiles ({reason}); give a "
        "frozen distribution of scipy.stats, a range or a list"
    )
