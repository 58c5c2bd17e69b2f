"""Tests of methods: no surrogate may fail."""

import warnings

import pytest


@pytest.fixture(autouse=True)
def no_fallback():
    """Makes the fall-back of a failing surrogate, a random proposal with a warning, an error."""
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="the surrogate failed")
        yield
