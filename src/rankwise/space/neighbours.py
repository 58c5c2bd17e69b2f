"""Neighbours of configurations, for local search."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from rankwise.space.parameters import Choice, Number, Parameter
from rankwise.types import Array

if TYPE_CHECKING:
    from rankwise.space.encoder import Encoder

_STEPS = 4  # random steps per numerical hyperparameter


def one_exchange(encoder: Encoder, row: Array, rng: np.random.Generator, scale: float) -> Array:
    """Valid codes (n, p) that differ from row (p,) in one active hyperparameter."""
    changed = []
    for j, parameter in enumerate(encoder.parameters):
        if np.isnan(row[j]) or parameter.size <= 1:
            continue
        values = _alternatives(parameter, row[j], rng, scale)
        block = np.repeat(row[None], len(values), axis=0)
        block[:, j] = values
        changed.append(block)
    if not changed:
        return np.empty((0, len(row)))
    codes = activate(encoder, np.concatenate(changed), rng)
    return codes[encoder.allowed(codes)]


def perturb(
    encoder: Encoder, rows: Array, rng: np.random.Generator, scale: Array, rate: float
) -> tuple[Array, npt.NDArray[np.intp]]:
    """Change several hyperparameters of each row at random.

    Args:
        encoder: encoder of the space.
        rows: codes (n, p).
        rng: random generator.
        scale: standard deviation (n,) of the steps of numbers, in the unit cube.
        rate: probability that a choice without order is drawn anew.

    Returns:
        Valid codes (m, p) with m <= n, because forbidden ones are left out, and the indices (m,)
        of the rows they were made from.
    """
    n = len(rows)
    out = rows.copy()
    for j, parameter in enumerate(encoder.parameters):
        if parameter.size <= 1:
            continue
        if isinstance(parameter, Choice) and not parameter.ordered:
            draw = parameter.legal[(rng.random(n) * parameter.size).astype(int)]
            out[:, j] = np.where(rng.random(n) < rate, draw, out[:, j])
        else:
            # Each row changes a random subset of its numbers, half of them on average.
            moves = rng.random(n) < 0.5
            unit = parameter.encode(rows[:, j])
            step = (rng.normal(size=n) * scale)[:, None]
            # Steps beyond a bound are clipped to it, because optima often lie on bounds.
            out[:, j] = np.where(moves, parameter.decode(unit + step), out[:, j])
    out[np.isnan(rows)] = np.nan
    out = activate(encoder, out, rng)
    kept = np.flatnonzero(encoder.allowed(out))
    return out[kept], kept


def activate(encoder: Encoder, codes: Array, rng: np.random.Generator) -> Array:
    """Make codes (n, p) consistent with the conditions.

    Hyperparameters that become active take random values; those that become inactive take NaN.
    """
    fresh = encoder.from_unit_raw(rng.random(codes.shape))
    return encoder.deactivate(np.where(np.isnan(codes), fresh, codes))


def _alternatives(
    parameter: Parameter, code: float, rng: np.random.Generator, scale: float
) -> Array:
    """The neighbouring codes (k,) of one hyperparameter's code."""
    if isinstance(parameter, Choice):
        place = np.arange(len(parameter.legal)) - np.searchsorted(parameter.legal, code)
        others: Array = parameter.legal[
            np.abs(place) == 1 if parameter.ordered else place != 0
        ].astype(float)
        return others
    assert isinstance(parameter, Number)
    unit = parameter.encode(np.array([code]))
    values = parameter.decode(unit + rng.normal(size=(_STEPS, 1)) * scale)
    if parameter.step:
        adjacent = parameter.nearest(np.array([code - parameter.step, code + parameter.step]))
        values = np.concatenate([values, adjacent])
    return np.unique(values[values != code])
