"""Encoding of a single hyperparameter as columns of numbers.

Inside the library a configuration is a row of *codes*, one per hyperparameter: the value itself
for a number, the index of the choice for all others, NaN if the hyperparameter is inactive. A
`Parameter` converts its codes to columns of the unit cube and back.

`Parameter.within` narrows a parameter: fewer values are legal, but the columns stay the same, so
that models learnt on the whole range still apply.

Floats are rounded to a lattice of about twelve significant digits. This makes the conversion from
value to cube and back exact, because the rounding errors of a logarithm are much smaller than the
spacing of the lattice.
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np
from typing_extensions import Self

from rankwise.errors import ConfigurationError, SpaceError
from rankwise.types import Array, Counts

# ConfigSpace is imported where it is used: it imports scipy.stats, which takes most of the time of
# `from rankwise import RankwiseSampler`.
if TYPE_CHECKING:
    from ConfigSpace.hyperparameters import Hyperparameter
    from ConfigSpace.hyperparameters.float_hyperparameter import FloatHyperparameter
    from ConfigSpace.hyperparameters.integer_hyperparameter import IntegerHyperparameter

DIGITS = 12
MIDDLE = 0.5  # encoded value of an inactive number; its activity column is 0
_LARGEST_INTEGER = 2**53  # above this, consecutive integers are equal as floats
_LARGEST_LOG_INTEGER = 10**13  # above this, rounding errors of a logarithm exceed 1/2


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

    @abstractmethod
    def within(self, legal: Any) -> Self:
        """A copy with fewer legal values and the same columns.

        Args:
            legal: `(low, high)` or `(low, high, step)` for a number, a list of values for a
                choice. Values that are illegal now are ignored.

        Raises:
            SpaceError: no value would be legal.
        """


class Number(Parameter):
    """A float or an integer, on a linear or a logarithmic scale.

    Attributes:
        lower: the smallest legal value.
        upper: the largest legal value.
        step: distance between legal values, which start at `lower`; 0 without steps.
    """

    def __init__(self, hp: FloatHyperparameter | IntegerHyperparameter) -> None:
        from ConfigSpace.hyperparameters import (
            UniformFloatHyperparameter,
            UniformIntegerHyperparameter,
        )
        from ConfigSpace.hyperparameters.integer_hyperparameter import IntegerHyperparameter

        self.integer = isinstance(hp, IntegerHyperparameter)
        self.lower, self.upper = float(hp.lower), float(hp.upper)
        self._scale = (self.lower, self.upper)  # values that are encoded as 0 and 1
        self.step = 1.0 if self.integer else 0.0
        self.log = bool(hp.log)
        largest = max(abs(self.lower), abs(self.upper))
        if self.integer and largest >= (_LARGEST_LOG_INTEGER if self.log else _LARGEST_INTEGER):
            limit = "10^13 on a log scale" if self.log else "2^53"
            raise SpaceError(
                f"{hp.name!r}: integers beyond {limit} cannot be told apart; "
                "use a float, or tune the exponent"
            )
        plain = isinstance(hp, UniformFloatHyperparameter | UniformIntegerHyperparameter)
        # Prior of a hyperparameter that is not uniform, as a distribution over [0, 1].
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
        # A float that was rounded elsewhere (ConfigSpace keeps 13 decimals) may exceed a bound in
        # its last digits. On a log scale the tolerance at the lower bound is relative to it.
        above = below = 10.0 ** (1 - DIGITS) * max(abs(self.lower), abs(self.upper))
        if self.log:
            below = min(max(10.0 ** (1 - DIGITS) * self.lower, 1e-13), 0.1 * self.lower)
        if not self.lower - below <= number <= self.upper + above:
            raise self._illegal(value)
        code = float(self.nearest(np.array([number]))[0])
        off_grid = code != number if self.integer else abs(code - number) > 1e-8 * self.step
        if self.step and off_grid:
            raise self._illegal(value)
        return code

    def value(self, code: float) -> Any:
        return int(code) if self.integer else float(code)

    def encode(self, codes: Array) -> Array:
        unit = self._to_unit(codes)
        return np.where(np.isnan(codes), MIDDLE, unit)[:, None]

    def decode(self, columns: Array) -> Array:
        return self.nearest(self._from_scale(np.clip(columns[:, 0], 0.0, 1.0)))

    def nearest(self, values: Array) -> Array:
        """The legal codes (n,) nearest to arbitrary numbers (n,); NaN stays NaN."""
        if self.step and not (self.integer and self.step == 1):
            values = self.lower + np.round((values - self.lower) / self.step) * self.step
        clipped: Array = np.clip(self._rounded(values), self.lower, self.upper) + 0.0  # no -0.0
        return clipped

    def from_unit(self, u: Array) -> Array:
        half = self.step / 2  # with steps, each legal value has a bin of equal width
        low, high = self._on_scale(np.array([self.lower - half, self.upper + half]))
        if self._prior is not None:
            half = 0.5 if self.integer else 0.0
            start, end = self._on_scale(np.array([self._scale[0] - half, self._scale[1] + half]))
            part = np.clip((np.array([low, high]) - start) / (end - start), 0.0, 1.0)
            first, last = self._prior.cdf(part)
            u = self._prior.ppf(first + u * (last - first))
            low, high = start, end
        position = low + u * (high - low)
        return self.nearest(np.exp(position) if self.log else position)

    def levels(self, k: int) -> Array:
        if k >= self.size:  # points spread evenly on a log scale would skip some values
            return self.nearest(self.lower + self.step * np.arange(self.size))
        first, last = self._to_unit(np.array([self.lower, self.upper]))
        spread = np.linspace(first, last, k) if k > 1 else np.array([(first + last) / 2])
        return np.unique(self.nearest(self._from_scale(spread)))

    def within(self, legal: Any) -> Self:
        low, high, *given = (float(x) for x in legal)
        step = given[0] if given else self.step
        start = low if given else self.lower  # a new step counts from the given lower end
        low, high = max(low, self.lower), min(high, self.upper)
        if step:
            # Both ends are rounded in the same way as in `nearest`, which must not change them.
            low = self._legal_end(max(low, start + math.ceil((low - start) / step - 1e-9) * step))
            high = self._legal_end(low + math.floor((high - low) / step + 1e-9) * step)
        elif low < high:
            low, high = self._lattice_ends(low, high)
        if low > high:
            raise SpaceError(
                f"{self.name!r}: no value of {tuple(legal)} lies in "
                f"[{self.value(self.lower)}, {self.value(self.upper)}]"
            )
        narrow = copy.copy(self)
        narrow.lower, narrow.upper, narrow.step = low, high, step
        several = round((high - low) / step) + 1 if step else math.inf
        narrow.size = float(several) if high > low else 1.0
        return narrow

    def _legal_end(self, value: float) -> float:
        [rounded] = self._rounded(np.array([value]))
        return min(max(float(rounded), self.lower), self.upper)

    def _illegal(self, value: Any) -> ConfigurationError:
        kind = "an integer" if self.integer else "a number"
        return ConfigurationError(
            f"{self.name!r} must be {kind} in "
            f"[{self.value(self.lower)}, {self.value(self.upper)}], not {value!r}"
        )

    def _on_scale(self, values: Array) -> Array:
        return np.log(values) if self.log else values

    def _to_unit(self, values: Array) -> Array:
        low, high = self._on_scale(np.array(self._scale))
        if low == high:
            return np.zeros_like(values)
        unit: Array = np.clip((self._on_scale(values) - low) / (high - low), 0.0, 1.0)
        return unit

    def _from_scale(self, unit: Array) -> Array:
        low, high = self._on_scale(np.array(self._scale))
        position: Array = low + unit * (high - low)
        return np.exp(position) if self.log else position

    def _lattice_ends(self, low: float, high: float) -> tuple[float, float]:
        """The first and the last lattice point in a range, so that rounding stays inside it."""
        first, last = self._rounded(np.array([low, high]))
        if first < low:
            first = self._rounded(np.array([first + self._spacing(low)]))[0]
        if last > high:
            last = self._rounded(np.array([last - self._spacing(high)]))[0]
        # The ends of the whole range are legal even if they are not lattice points.
        first = low if low == self.lower else float(first)
        last = high if high == self.upper else float(last)
        return (first, last) if first < last else (low, low)

    def _spacing(self, value: float) -> float:
        """The distance between lattice points near a value."""
        return 10.0 ** (_exponent(value) + 1 - DIGITS if self.log else -self._decimals)

    def _rounded(self, values: Array) -> Array:
        """Numbers (n,) rounded to the lattice; they need not be legal."""
        if self.integer:
            return np.round(values)
        if self.log:
            return _round_significant(values)
        return np.round(values, self._decimals)


class Choice(Parameter):
    """One of several values: categorical (one-hot columns), ordinal (one) or constant (none).

    Attributes:
        values: all values in the order of their codes.
        legal: the codes (k,) of the legal values, sorted.
    """

    def __init__(self, name: str, values: tuple[Any, ...], ordered: bool, weights: Array) -> None:
        self.values = tuple(_plain(v) for v in values)
        self.ordered = ordered
        width = 0 if len(values) == 1 else 1 if ordered else len(values)
        super().__init__(name, width, float(len(values)))
        self.legal: Counts = np.arange(len(values))
        self._weights = weights

    def code(self, value: Any) -> float:
        value = _plain(value)
        for index in self.legal:
            # True == 1 in Python, but as choices they are different values.
            choice = self.values[index]
            if isinstance(choice, bool) == isinstance(value, bool) and choice == value:
                return float(index)
        choices = [self.values[index] for index in self.legal]
        raise ConfigurationError(f"{self.name!r} must be one of {choices}, not {value!r}")

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
            index = np.round(np.clip(columns[:, 0], 0.0, 1.0) * (len(self.values) - 1))
            distance = np.abs(index[:, None] - self.legal)
        else:
            distance = -columns[:, self.legal]
        nearest: Array = self.legal[np.argmin(distance, axis=1)].astype(float)
        return nearest

    def from_unit(self, u: Array) -> Array:
        weights = self._weights[self.legal]
        index = np.searchsorted(np.cumsum(weights) / np.sum(weights), u, side="right")
        codes: Array = self.legal[np.minimum(index, len(self.legal) - 1)].astype(float)
        return codes

    def levels(self, k: int) -> Array:
        if not self.ordered:
            return self.legal.astype(float)
        spread = np.linspace(0, len(self.legal) - 1, min(k, len(self.legal)))
        codes: Array = self.legal[np.unique(np.round(spread)).astype(int)].astype(float)
        return codes

    def within(self, legal: Any) -> Self:
        wanted = set()
        for value in legal:
            try:
                wanted.add(int(self.code(value)))
            except ConfigurationError:
                pass  # not a value of this parameter
        if not wanted:
            raise SpaceError(f"{self.name!r}: none of {list(legal)} is among its choices")
        narrow = copy.copy(self)
        narrow.legal = np.array(sorted(wanted))
        narrow.size = float(len(wanted))
        return narrow


def make_parameter(hp: Hyperparameter[Any, Any]) -> Parameter:
    """Make the `Parameter` of a ConfigSpace hyperparameter."""
    from ConfigSpace.hyperparameters import (
        CategoricalHyperparameter,
        Constant,
        OrdinalHyperparameter,
    )
    from ConfigSpace.hyperparameters.float_hyperparameter import FloatHyperparameter
    from ConfigSpace.hyperparameters.integer_hyperparameter import IntegerHyperparameter

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
    """A text for a choice that is an object; the same in every process."""
    if hasattr(value, "__qualname__"):
        return f"{value.__module__}.{value.__qualname__}"
    return repr(value)


def _plain(value: Any) -> Any:
    """Convert a NumPy scalar to a Python object; other values stay."""
    return value.item() if isinstance(value, np.generic) else value


def _exponent(x: float) -> int:
    """The exponent of a positive number in scientific notation; 0 for 0 and below."""
    return math.floor(math.log10(x)) if x > 0 else 0


def _round_significant(values: Array) -> Array:
    """Positive values (n,) rounded to `DIGITS` significant digits; NaN stays NaN."""
    exponent = DIGITS - 1 - np.floor(np.log10(values))
    # One of the two powers is 1. Negative powers of 10 are avoided because they are not exact.
    up, down = 10.0 ** np.maximum(exponent, 0.0), 10.0 ** np.maximum(-exponent, 0.0)
    rounded: Array = np.round(values * up / down) / up * down
    return rounded
