"""What all tests share: one thread, property tests without chance, short training."""

import os

# Tests run side by side: threads that wait for each other on busy cores cost more than they bring.
os.environ.update(
    {f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS")} | dict(os.environ)
)

import pytest
from hypothesis import HealthCheck, settings

from rankwise.surrogates import dist, sharednet

settings.register_profile(
    "default",
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=100,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
settings.load_profile("default")


@pytest.fixture(autouse=True, scope="session")
def _short_training():
    """Networks of `eb-net` and distBO learn for fewer steps, unless a test says otherwise."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sharednet, "STEPS", 150)
        patch.setattr(dist, "STEPS", 40)
        patch.setattr(dist, "RETRAIN", 2)
        yield
