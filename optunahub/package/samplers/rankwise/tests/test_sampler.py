"""Optuna's own conformance tests of samplers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import optunahub
import pytest
from optuna.samplers import BaseSampler
from optuna.testing.pytest_samplers import (
    BasicSamplerTestCase,
    RelativeSamplerTestCase,
    SingleOnlySamplerTestCase,
)

RankwiseSampler = optunahub.load_local_module(
    package="package/samplers/rankwise", registry_root=str(Path(__file__).parents[4])
).RankwiseSampler


class TestRankwiseSampler(
    BasicSamplerTestCase, RelativeSamplerTestCase, SingleOnlySamplerTestCase
):
    """Without a past, so that no test has to wait for training."""

    @pytest.fixture
    def sampler(self) -> Callable[[], BaseSampler]:
        return lambda: RankwiseSampler(seed=0)
