"""Ticks of an axis are few, round and within the interval."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankwise._core.ticks import round_ticks

NUMBERS = st.floats(-1e9, 1e9, allow_subnormal=False)


@given(NUMBERS, st.floats(1e-6, 1e9), st.booleans())
def test_ticks_are_few_and_inside(low, width, integer):
    high = low + width
    ticks = round_ticks(low, high, integer=integer)
    assert len(ticks) <= 6
    slack = 1e-6 * (high - low) + 1e-9 * max(abs(low), abs(high))
    assert all(low - slack <= tick <= high + slack for tick in ticks)
    assert not integer or all(tick == round(tick) for tick in ticks)


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0, 1, [0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (0, 5, [0, 1, 2, 3, 4, 5]),
        (3, 97, [20, 40, 60, 80]),
        (-1, 1, [-1.0, -0.5, 0.0, 0.5, 1.0]),
    ],
)
def test_ticks_are_round(low, high, ticks):
    assert round_ticks(low, high) == pytest.approx(ticks)


@pytest.mark.parametrize("high", [1.0, 0.0, math.inf, math.nan])
def test_an_interval_without_width_has_no_ticks(high):
    assert round_ticks(1.0, high) == []


def test_whole_numbers():
    assert round_ticks(1, 4, integer=True) == [1, 2, 3, 4]
    assert round_ticks(0.2, 0.8, integer=True) == []
