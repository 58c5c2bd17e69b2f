"""Methods made small for tests, the past studies that they learn, and checks of proposals.

Training steps and sizes of networks are options of the methods, so nothing is patched. `learnt`
trains a method once per process and search space; the tests of one method run in one process (see
`grouped`), so that training is paid once.
"""

from __future__ import annotations

import json
import math
import os
import pickle
import subprocess
import sys
from functools import lru_cache

import numpy as np
import pytest

from rankwise import Encoder, Optimizer, TaskSet, make_space, methods
from rankwise.acquisition.maximizer import Seen
from rankwise.errors import SpaceExhausted
from support import TESTS

SPACE = make_space(
    {
        "kernel": ["rbf", "poly", "linear"],
        "C": (1e-3, 1e3, "log"),
        "gamma": (1e-4, 10.0, "log"),
        "degree": (2, 5),
        "shrinking": [True, False],
    },
    when={"gamma": {"kernel": "rbf"}, "degree": {"kernel": "poly"}},
    forbid=[{"kernel": "linear", "shrinking": False}],
)
NUMERIC = {"x": (-5.0, 5.0), "n": (1, 100, "log")}
FINITE = {"a": ["x", "y", "z"], "b": (0, 3)}  # 12 configurations
SPACES = {"mixed": SPACE, "numeric": NUMERIC, "finite": FINITE}
SMALL = {"members": 3, "width": 8, "layers": 2, "epochs": 30}
NETWORK = {"width": 16, "layers": 2, "meta_rate": 5e-3}
DEEP = {**NETWORK, "layers": 3, "epochs": 20}
NETWORKS = {"fsbo": DEEP, "dklm": DEEP, "ablr": NETWORK, "gcp": NETWORK}
HIDDEN = {"width": 8, "layers": 2}
SINGLE_STUDY = {
    "deep-ensemble": {**HIDDEN, "epochs": 20, "members": 3},
    "mc-dropout": {**HIDDEN, "epochs": 20, "passes": 10},
    "dngo": {**HIDDEN, "epochs": 20},
    "bohamiann": {**HIDDEN, "burn_in": 20, "thin": 2, "draws": 4, "chains": 2},
    "dkgp": {**HIDDEN, "epochs": 10},
    "none-blr": {"steps": 40},
    "forest": {"trees": 30},
}
DISTBO = {"steps": 40, "retrain": 2}
QUICK = {
    **dict.fromkeys(("dre", "dre-ri", "dre-data"), SMALL),
    **NETWORKS,
    **SINGLE_STUDY,
    "dist-gp": DISTBO,
    "dist-blr": DISTBO,
    "eb-net": {"steps": 150},
    "dre-gp": {"steps": 200},
}
"""Options that make a method fast enough to be tested often."""

TRAINING = {"steps": 200, "lists": 4, "list_size": 20, "support": 10, "rate": 5e-3}
LEARNING = {
    **{key: {"training": TRAINING} for key in ("dre", "dre-data")},
    **{key: {"steps": 300} for key in NETWORKS},
}
"""Options with which a method learns `past` well enough to propose what is good there."""

HASTE = {
    **{key: {"training": {**TRAINING, "steps": 10}} for key in ("dre", "dre-data")},
    **{key: {"steps": 10} for key in (*NETWORKS, "dist-gp", "dist-blr", "eb-net", "dre-gp")},
}
"""Options with which a method trains for almost no time, where the result does not matter."""

BASELINES = ("random", "grid", "default", "portfolio", "init", "init-gp", "init-blr")
PEERS = ("tpe", "gp-optuna", "cma-es", "ws-cma-es")

# Built from the parts of another method; without contexts, as here, they are the same.
SAME = {"none-gp", "multi-blr", "init-gp", "init-blr", "manual-gp", "manual-blr", "multi-gp"}
CHECKED = [name for name in methods.available() if name not in SAME]
TRANSFER = [name for name in CHECKED if methods.get(name).transfer]


def grouped(names):
    """Test parameter `method`; the tests of one method run in one process and share `learnt`."""
    marked = [pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in names]
    return pytest.mark.parametrize("method", marked)


every_method = grouped(CHECKED)
every_transfer_method = grouped(TRANSFER)

STRANGE = {
    "constant": [3.0] * 9,
    "tied": [0.0, 1.0, 1.0] * 3,
    "all-failed": [math.nan] * 9,
    "some-failed": [1.0, math.nan, 2.0, math.inf, -math.inf, 3.0, 1.0, 0.5, 2.0],
    "huge": [1e300, -1e300, 1.0, 2.0, 1e308, 0.0, 5.0, 6.0, 7.0],
    "tiny": [1e-300, 2e-300, 3e-300] * 3,
    "outliers": [4e7, 0.1, 0.2, 0.15, 3e6, 0.12, 0.3, 0.5, 0.4],
}
MIXED = [math.nan, 3.0, 3.0, math.inf, 1e300, 1e-300, 4e7, -math.inf, 0.1, -1e300, 0.1]
"""All kinds of strange losses in one study."""
IN_FULL = ("gp", "forest", "eb-gp", "dre", "rgpe")
"""Methods that see every kind of strange losses; one for each kind of model."""


def strange_losses(names):
    """Pairs of a method and losses: all kinds for methods of `IN_FULL`, else one mixed study."""
    pairs = [
        pytest.param(name, values, id=f"{name}-{kind}", marks=pytest.mark.xdist_group(name))
        for name in names
        for kind, values in (STRANGE.items() if name in IN_FULL else [("mixed", MIXED)])
    ]
    return pytest.mark.parametrize(("method", "values"), pairs)


def one_by_one(values):
    """An objective that returns these values in turn."""
    remaining = iter(values)
    return lambda configuration: next(remaining)


def elsewhere(module: str, function: str) -> dict:
    """What a function of a test file below `methods` returns in another process."""
    script = f"import json; from methods import {module}; print(json.dumps({module}.{function}()))"
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        cwd=TESTS,
        env={**os.environ, "PYTHONHASHSEED": "123"},
    )
    return json.loads(done.stdout)


def loss(configuration) -> float:
    x = math.log10(configuration["C"]) if "C" in configuration else configuration["x"]
    return (x - 1) ** 2 + 0.1 * len(configuration)


def make(method, space, **options):
    """Optimizer of a method with its quick options."""
    return Optimizer(space, method=method, **QUICK.get(method, {}) | options)


def hasty(method, space, **options):
    """Optimizer of a method that trains for almost no time."""
    return make(method, space, **HASTE.get(method, {}) | options)


def run(method, space, n, value=loss, **options):
    """Optimizer of a method after n trials."""
    return go_on(make(method, space, **{"design": 5, "seed": 7} | options), n, value)


def go_on(optimizer, n, value=loss):
    """The same optimizer after n more trials."""
    for _ in range(n):
        [configuration] = optimizer.ask()
        optimizer.tell(configuration, value(configuration), cost=0.5)
    return optimizer


# ---------------------------------------------------------------------- past studies


def past_loss(configuration) -> float:
    """Lowest at "poly" and C = 100, at x = 4, at b = 2, unlike `loss`."""
    if "x" in configuration:
        return (configuration["x"] - 4) ** 2
    if "b" in configuration:
        return abs(configuration["b"] - 2) + (configuration["a"] != "y")
    return (math.log10(configuration["C"]) - 2) ** 2 + 5 * (configuration["kernel"] != "poly")


@lru_cache
def past(name) -> TaskSet:
    """Six studies of a space with noise, each on another scale of losses."""
    encoder, studies = Encoder(SPACES[name]), {}
    for k in range(6):
        rng = np.random.default_rng(k)
        configurations = encoder.decode(encoder.sample(10 if name == "finite" else 40, rng))
        losses = [10.0**k * (past_loss(c) + 0.1 * rng.random()) for c in configurations]
        studies[f"study {k}"] = configurations, losses
    return TaskSet.of(encoder, studies)


@lru_cache
def _learnt(method, name):
    return make(method, SPACES[name], tasks=past(name), seed=0, **LEARNING.get(method, {}))


def learnt(method, name, *, seed=0, design=None):
    """Optimizer without trials that has learnt `past` of a space; it is trained once."""
    return _learnt(method, name).restarted(seed=seed, design=design)


@lru_cache
def _barely_learnt(method, name):
    return hasty(method, SPACES[name], tasks=past(name), seed=0)


def barely_learnt(method, name, *, seed=0):
    """Like `learnt`, of a method that trained for almost no time."""
    return _barely_learnt(method, name).restarted(seed=seed)


# ---------------------------------------------------------------------- checks


def check_trials(optimizer, n):
    """The optimizer has n trials, valid and all different."""
    configurations = [t.configuration for t in optimizer.trials]
    rows = optimizer.encoder.encode(configurations)  # refuses invalid ones
    assert len(np.unique(rows, axis=0)) == n
    assert all(type(v) in (str, int, float, bool) for c in configurations for v in c.values())


def check_pickling(straight, pickled):
    """Two equal optimizers continue equally, one of them pickled after every proposal."""
    for _ in range(7):
        [expected], [configuration] = straight.ask(), pickled.ask()
        assert configuration == expected
        pickled = pickle.loads(pickle.dumps(pickled))
        straight.tell(expected, loss(expected))
        pickled.tell(configuration, loss(configuration))


def check_pending(optimizer):
    """Two batches one after the other have no configuration in common."""
    first, second = optimizer.ask(3), optimizer.ask(2)
    rows = optimizer.encoder.encode(first + second)
    assert len(np.unique(rows, axis=0)) == 5
    assert Seen(optimizer.history.X).new(rows).all()


def check_finite(optimizer):
    """All 12 configurations are proposed once, and then none."""
    seen = []
    for _ in range(4):
        batch = optimizer.ask(3)
        optimizer.tell(batch[0], 1.0)  # the other two stay pending for a while
        seen += batch
        for configuration in batch[1:]:
            optimizer.tell(configuration, float(configuration["b"]))
    assert len({tuple(sorted(c.items())) for c in seen}) == 12
    with pytest.raises(SpaceExhausted):
        optimizer.ask()
