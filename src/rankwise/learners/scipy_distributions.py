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
_SMALLEST_LOG = 1e-12  # of a logarithmic range, see `make_space`


def is_distribution(value: Any) -> bool:
    """Whether something can be drawn from, in the manner of `scipy.stats`."""
    return hasattr(value, "rvs") or hasattr(value, "icdf")


@dataclass(frozen=True)
class Quantile:
    """From a quantile to a value of a distribution."""

    distribution: Any

    def __call__(self, quantile: float) -> float:
        value = float(self._inverse(quantile))
        whole = hasattr(self.distribution, "pmf") and value.is_integer()
        return int(value) if whole else value

    @property
    def _inverse(self) -> Any:
        # `stats.norm(0, 1)` has the one, `stats.Normal()` the other.
        return getattr(self.distribution, "ppf", None) or self.distribution.icdf


def from_distribution(name: str, distribution: Any) -> tuple[Any, Quantile | None]:
    """A distribution as what `make_space` takes, and how to read its values if they differ.

    Uniform ones, on a logarithmic scale or of integers too, are ranges. Of any other the
    quantile is the hyperparameter.

    Args:
        name: of the hyperparameter.
        distribution: frozen: its arguments are given.

    Raises:
        SpaceError: it has no quantiles.
    """
    quantile = Quantile(distribution)
    try:
        probes = [quantile(p) for p in _PROBES]
    except Exception as error:  # whatever a distribution of someone else's raises
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
    # One that was shifted by `loc` is not uniform on a logarithmic scale.
    if (
        kind in ("loguniform", "reciprocal")
        and low >= _SMALLEST_LOG
        and math.isclose(probes[2], math.sqrt(low * high), rel_tol=1e-9)
    ):
        return (float(low), float(high), "log"), None
    # In the fingerprint of the space: quantiles of different things are different.
    meaning = f"{kind}({', '.join(f'{p:.6g}' for p in probes)})"
    spec = ConfigSpace.Float(name, (_TAIL, 1 - _TAIL), meta={"quantile_of": meaning})
    return spec, quantile


def _no_quantiles(name: str, distribution: Any, reason: object) -> SpaceError:
    return SpaceError(
        f"{name!r}: {type(distribution).__name__} has no usable quantiles ({reason}); give a "
        "frozen distribution of scipy.stats, a range or a list"
    )
