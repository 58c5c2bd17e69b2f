"""One hyperparameter as columns of numbers.

Inside the library a configuration is a row of *codes*, one per hyperparameter: the value
itself for a number, the index of the choice for anything else, NaN where the hyperparameter
is inactive. A `Parameter` knows how its codes become columns of the unit cube and back.

Floats live on a lattice of about twelve significant digits. That is what makes the way from
value to cube and back exact: the rounding errors of a logarithm are far below the lattice.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from ConfigSpace.hyperparameters import (
    CategoricalHyperparameter,
    Constant,
    Hyperparameter,
    OrdinalHyperparameter,
)
from ConfigSpace.hyperparameters.float_hyperparameter import FloatHyperparameter
from ConfigSpace.hyperparameters.integer_hyperparameter import IntegerHyperparameter
from ConfigSpace.hyperparameters.uniform_float import UniformFloatHyperparameter
from ConfigSpace.hyperparameters.uniform_integer import UniformIntegerHyperparameter

from rankwise.errors import ConfigurationError, SpaceError
from rankwise.types import Array

DIGITS = 12
MIDDLE = 0.5  # where an inactive number stands in the cube; its activity column says so too
_LARGEST_INTEGER = 2**53  # beyond it, consecutive integers are one float
_LARGEST_LOG_INTEGER = 10**13  # beyond it, the rounding errors of a logarithm exceed a half


class Parameter(ABC):
    """A hyperparameter with `width` columns in the unit cube."""

    def __init__(self, name: str, width: int, size: float) -> None:
        self.name = name
        self.width = width
        self.size = size  # number of different values, inf for a float

    @abstractmethod
    def code(self, value: Any) -> float:
        """The code of a value; raises `ConfigurationError` if the value is not legal."""

    @abstractmethod
    def value(self, code: float) -> Any:
        """The value of a code, as a plain Python object."""

    @abstractmethod
    def encode(self, codes: Array) -> Array:
        """Codes (n,), NaN = inactive, as columns (n, width) of the unit cube."""

    @abstractmethod
    def decode(self, columns: Array) -> Array:
        """The legal codes (n,) nearest to columns (n, width) of the unit cube."""

    @abstractmethod
    def from_unit(self, u: Array) -> Array:
        """Codes (n,) at the quantiles u (n,) of the hyperparameter's distribution."""

    @abstractmethod
    def levels(self, k: int) -> Array:
        """At most k codes, evenly spread; all of them for a choice without order."""


class Number(Parameter):
    """A float or an integer, on a linear or a logarithmic scale."""

    def __init__(self, hp: FloatHyperparameter | IntegerHyperparameter) -> None:
        self.integer = isinstance(hp, IntegerHyperparameter)
        self.lower, self.upper = float(hp.lower), float(hp.upper)
        self.log = bool(hp.log)
        largest = max(abs(self.lower), abs(self.upper))
        if self.integer and largest >= (_LARGEST_LOG_INTEGER if self.log else _LARGEST_INTEGER):
            limit = "10^13 on a log scale" if self.log else "2^53"
            raise SpaceError(
                f"{hp.name!r}: integers beyond {limit} cannot be told apart; "
                "use a float, or tune the exponent"
            )
        plain = isinstance(hp, UniformFloatHyperparameter | UniformIntegerHyperparameter)
        # The prior's distribution over the unit interval of the hyperparameter's scale.
        self._prior: Any = None if plain else hp._vector_dist.rv  # type: ignore[attr-defined]
        super().__init__(hp.name, 1, float(hp.size))
        span = self.upper - self.lower
        self._decimals = (
            min(DIGITS - _exponent(span), DIGITS + 2 - _exponent(largest)) if span > 0 else 0
        )

    def code(self, value: Any) -> float:
        if isinstance(value, bool | np.bool_ | str | bytes) or value is None:
            raise self._illegal(value)
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            raise self._illegal(value) from None
        # A float that was rounded elsewhere (ConfigSpace keeps 13 decimals) may miss a bound by
        # its last digits; on a log scale those of the lower bound are small.
        above = below = 10.0 ** (1 - DIGITS) * max(abs(self.lower), abs(self.upper))
        if self.log:
            below = min(max(10.0 ** (1 - DIGITS) * self.lower, 1e-13), 0.1 * self.lower)
        if not self.lower - below <= number <= self.upper + above:
            raise self._illegal(value)
        code = float(self._round(np.array([number]))[0])
        if self.integer and code != number:
            raise self._illegal(value)
        return code

    def value(self, code: float) -> Any:
        return int(code) if self.integer else float(code)

    def encode(self, codes: Array) -> Array:
        unit = self._to_unit(codes)
        return np.where(np.isnan(codes), MIDDLE, unit)[:, None]

    def decode(self, columns: Array) -> Array:
        return self._round(self._from_scale(np.clip(columns[:, 0], 0.0, 1.0)))

    def from_unit(self, u: Array) -> Array:
        if self._prior is not None:
            u = self._prior.ppf(u)
        if not self.integer:
            return self._round(self._from_scale(u))
        low, high = self.lower - 0.5, self.upper + 0.5  # each integer gets a bin of its own
        if self.log:
            return self._round(np.exp(np.log(low) + u * (np.log(high) - np.log(low))))
        return self._round(low + u * (high - low))

    def levels(self, k: int) -> Array:
        if k >= self.size:  # evenly spread on a log scale would skip some
            return np.arange(self.lower, self.upper + 1)
        spread = np.linspace(0.0, 1.0, k) if k > 1 else np.array([0.5])
        return np.unique(self._round(self._from_scale(spread)))

    def _illegal(self, value: Any) -> ConfigurationError:
        kind = "an integer" if self.integer else "a number"
        return ConfigurationError(
            f"{self.name!r} must be {kind} in "
            f"[{self.value(self.lower)}, {self.value(self.upper)}], not {value!r}"
        )

    def _to_unit(self, values: Array) -> Array:
        if self.upper == self.lower:
            return np.zeros_like(values)
        if self.log:
            low, high = math.log(self.lower), math.log(self.upper)
            unit = (np.log(values) - low) / (high - low)
        else:
            unit = (values - self.lower) / (self.upper - self.lower)
        return np.clip(unit, 0.0, 1.0)

    def _from_scale(self, unit: Array) -> Array:
        if self.log:
            low, high = math.log(self.lower), math.log(self.upper)
            return np.exp(low + unit * (high - low))
        return self.lower + unit * (self.upper - self.lower)

    def _round(self, values: Array) -> Array:
        if self.integer:
            rounded = np.round(values)
        elif self.log:
            rounded = _round_significant(values)
        else:
            rounded = np.round(values, self._decimals)
        clipped: Array = np.clip(rounded, self.lower, self.upper) + 0.0  # no negative zero
        return clipped


class Choice(Parameter):
    """One of several values: categorical (one-hot columns), ordinal (one) or constant (none)."""

    def __init__(self, name: str, values: tuple[Any, ...], ordered: bool, weights: Array) -> None:
        self.values = tuple(_plain(v) for v in values)
        self.ordered = ordered
        width = 0 if len(values) == 1 else 1 if ordered else len(values)
        super().__init__(name, width, float(len(values)))
        self._cumulated = np.cumsum(weights) / np.sum(weights)

    def code(self, value: Any) -> float:
        value = _plain(value)
        for index, choice in enumerate(self.values):
            # True == 1 in Python; as choices they are two different things.
            if isinstance(choice, bool) == isinstance(value, bool) and choice == value:
                return float(index)
        raise ConfigurationError(
            f"{self.name!r} must be one of {list(self.values)}, not {value!r}"
        )

    def value(self, code: float) -> Any:
        return self.values[int(code)]

    def encode(self, codes: Array) -> Array:
        if self.width == 0:
            return np.empty((len(codes), 0))
        if self.ordered:
            return np.where(np.isnan(codes), MIDDLE, codes / (len(self.values) - 1))[:, None]
        one_hot: Array = (codes[:, None] == np.arange(len(self.values))).astype(float)
        return one_hot

    def decode(self, columns: Array) -> Array:
        if self.width == 0:
            return np.zeros(len(columns))
        if self.ordered:
            return np.round(np.clip(columns[:, 0], 0.0, 1.0) * (len(self.values) - 1))
        index: Array = np.argmax(columns, axis=1).astype(float)
        return index

    def from_unit(self, u: Array) -> Array:
        index = np.searchsorted(self._cumulated, u, side="right")
        return np.minimum(index, len(self.values) - 1).astype(float)

    def levels(self, k: int) -> Array:
        if not self.ordered:
            return np.arange(len(self.values), dtype=float)
        return np.unique(np.round(np.linspace(0, len(self.values) - 1, min(k, len(self.values)))))


def make_parameter(hp: Hyperparameter[Any, Any]) -> Parameter:
    """The `Parameter` of a ConfigSpace hyperparameter."""
    if isinstance(hp, FloatHyperparameter | IntegerHyperparameter):
        return Number(hp)
    if isinstance(hp, CategoricalHyperparameter):
        weights = np.asarray(hp.probabilities, dtype=float)
        return Choice(hp.name, tuple(hp.choices), False, weights)
    if isinstance(hp, OrdinalHyperparameter):
        return Choice(hp.name, tuple(hp.sequence), True, np.ones(len(hp.sequence)))
    if isinstance(hp, Constant):
        return Choice(hp.name, (hp.value,), False, np.ones(1))
    raise SpaceError(f"{hp.name!r}: hyperparameters of type {type(hp).__name__} are not supported")


def stable_name(value: Any) -> str:
    """A text for a choice that is no plain value; the same in every process."""
    if hasattr(value, "__qualname__"):
        return f"{value.__module__}.{value.__qualname__}"
    return repr(value)


def _plain(value: Any) -> Any:
    """A NumPy scalar as the Python object it stands for."""
    return value.item() if isinstance(value, np.generic) else value


def _exponent(x: float) -> int:
    return math.floor(math.log10(x)) if x > 0 else 0


def _round_significant(values: Array) -> Array:
    """Positive values (n,) to `DIGITS` significant digits; NaN stays."""
    exponent = DIGITS - 1 - np.floor(np.log10(values))
    # Two powers, one of them 1: only those with positive exponents are exact.
    up, down = 10.0 ** np.maximum(exponent, 0.0), 10.0 ** np.maximum(-exponent, 0.0)
    rounded: Array = np.round(values * up / down) / up * down
    return rounded
