"""Sources, methods and benchmarks of users and of other packages."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from joblib.externals.loky import get_reusable_executor
from support import ROOT

import rankwise
from rankwise import methods
from rankwise._core.plugins import plugins
from rankwise.archive import Contents, Record, add_source, open_archive, studies_of
from rankwise.archive.sources import registry as source_registry
from rankwise.bench import benchmarks
from rankwise.bench.runner import run
from rankwise.errors import ArchiveError, OptionError, RunWarning, StorageError
from rankwise.methods import added
from rankwise.surrogates import GaussianProcess
from rankwise.surrogates.base import Posterior, Surrogate

PLUGIN = ROOT / "examples" / "plugin"
SPACE = {"x": (0.0, 1.0)}


@pytest.fixture(autouse=True)
def _restored(monkeypatch):
    monkeypatch.setattr(added, "_ADDED", dict(added._ADDED))
    monkeypatch.setattr(benchmarks, "_ADDED", dict(benchmarks._ADDED))
    monkeypatch.setattr(source_registry, "_ADDED", list(source_registry._ADDED))


@pytest.fixture
def installed(tmp_path):
    """The environment in which the example package is installed."""
    tomllib = pytest.importorskip("tomllib")
    points = tomllib.loads((PLUGIN / "pyproject.toml").read_text())["project"]["entry-points"]
    about = tmp_path / "site" / "rankwise_example-0.1.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: rankwise-example\nVersion: 0.1\n"
    )
    lines = [
        f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in entries.items())
        for group, entries in points.items()
    ]
    (about / "entry_points.txt").write_text("\n".join(lines))
    paths = [str(PLUGIN), str(about.parent), str(ROOT / "src")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


PROGRAM = """
import json, sys
import optuna, rankwise
from rankwise import methods
from rankwise.archive import open_archive
from rankwise.bench import benchmarks
from rankwise.bench.runner import run
from pathlib import Path

Path("past.trials").write_text("a; 1.5; lr=0.1; warm=True\\na; 0.5; lr=0.01; warm=False\\n")
archive = open_archive("past.trials")
run(["example-bowls"], ["nearest:neighbours=2"], trials=6, seeds=[0], out=Path("out"), jobs=1)
optuna.logging.set_verbosity(optuna.logging.ERROR)
study = optuna.create_study(sampler=rankwise.RankwiseSampler(alone="nearest", seed=0))
study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=6)
print(json.dumps({
    "params": archive.studies[0].params[0],
    "method": "nearest" in methods.available(),
    "options": methods.get("nearest").options,
    "benchmark": "example-bowls" in benchmarks.available(),
    "trials": len(study.trials),
}))
"""


def test_a_package_adds_a_source_a_method_and_a_benchmark(installed, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=installed,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout.splitlines()[-1])
    assert facts["params"] == {"lr": 0.1, "warm": True}
    assert facts["method"] and facts["benchmark"] and facts["trials"] == 6
    assert facts["options"]["neighbours"] == 3
    listed = subprocess.run(
        [sys.executable, "-m", "rankwise.cli", "methods", "--all"],
        env=installed,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "nearest" in listed.stdout


def test_a_decorator_adds_a_method():
    @methods.register("test-gp", summary="a test")
    class Own(GaussianProcess):
        def __init__(self, *, seed=0, noise_floor=1e-4):
            super().__init__(noise_floor=noise_floor)

    assert (
        "test-gp" in methods.available() and methods.get("test-gp").options["noise_floor"] == 1e-4
    )
    result = rankwise.minimize(lambda c: c["x"], SPACE, trials=4, method="test-gp", seed=0)
    assert len(result.trials) == 4


class Mean(Surrogate):
    """The mean of the past tasks at the nearest configurations."""

    def __init__(self, *, seed=0):
        self.seed = seed

    def meta_fit(self, tasks, validation=()):
        self.past = [*tasks, *validation]
        return self

    def fit(self, task):
        return self

    def predict(self, X, *, joint=False):
        near = [t.losses[np.abs(X - t.X.T).argmin(axis=1)] for t in self.past]
        return Posterior(np.mean(near, axis=0), np.full(len(X), 0.1))


def test_a_surrogate_with_meta_fit_learns_from_past_studies():
    methods.register("test-mean")(Mean)
    assert methods.get("test-mean").transfer
    assert methods.get("test-mean").summary.startswith("The mean of the past tasks")
    X = np.linspace(0, 1, 11)
    past = {"a": ([{"x": x} for x in X], (X - 0.3) ** 2)}
    result = rankwise.minimize(
        lambda c: (c["x"] - 0.3) ** 2,
        SPACE,
        trials=2,
        method="test-mean",
        tasks=rankwise.TaskSet.of(SPACE, past),
        seed=0,
    )
    assert result.best_value < 0.02


def test_workers_know_the_methods_of_a_notebook(tmp_path, monkeypatch):
    @methods.register("test-local", summary="a test")
    class Local(GaussianProcess):
        def __init__(self, *, seed=0):
            super().__init__()

    monkeypatch.syspath_prepend(str(PLUGIN))
    from rankwise_example.benchmark import BOWLS

    benchmarks.register(BOWLS)
    get_reusable_executor().shutdown(wait=True)  # workers of an earlier test lack the path
    cells = run(["example-bowls"], ["test-local"], trials=6, seeds=[0], out=tmp_path, jobs=2)
    assert all(cell.is_done(tmp_path) for cell in cells)


@pytest.mark.parametrize("name", ["gp", "", "a:b", "a b"])
def test_names_that_cannot_be_new_methods(name):
    with pytest.raises(OptionError, match="name of a new method"):
        methods.register(name)


def test_what_cannot_be_a_method():
    with pytest.raises(OptionError, match="not a rankwise"):
        methods.register("test-dict")(dict)

    class Seedless(GaussianProcess):
        def __init__(self):
            super().__init__()

    with pytest.raises(OptionError, match="needs a keyword argument seed"):
        methods.register("test-seedless")(Seedless)


class Failing:
    """A source that does not know that addresses can be of others."""

    def __init__(self, answer):
        self.answer = answer

    def belongs(self, address):
        return open(address).readline() == "mine"

    def read(self, address, options):
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def test_a_source_that_fails_costs_no_other_source(tmp_path):
    add_source(Failing([]))
    with (
        pytest.warns(RunWarning, match="the source Failing is not used: FileNotFoundError"),
        pytest.raises(StorageError, match="there is no such file"),
    ):
        open_archive(f"sqlite:///{tmp_path}/past.db")


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (KeyError("x"), r"mine\.txt cannot be read by the source Failing \(KeyError"),
        ([1], "must return rankwise.archive.Contents, not list"),
    ],
)
def test_what_a_source_must_not_do(tmp_path, answer, message):
    add_source(Failing(answer))
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(ArchiveError, match=message):
        open_archive(tmp_path / "mine.txt")
    with pytest.raises(OptionError, match="belongs and read"):
        add_source(object())


def test_a_source_of_this_process(tmp_path):
    class Memory:
        def belongs(self, address):
            return address.startswith("memory:")

        def read(self, address, options):
            return studies_of([Record("a", {"x": k}, k) for k in range(3)], address, options)

    add_source(Memory())
    archive = open_archive("memory:1", direction="minimize")
    assert archive.studies[0].name == "a" and archive.origin == "memory:1"
    assert isinstance(Memory().read("", archive_options()), Contents)


def archive_options():
    from rankwise.archive import ReadOptions

    return ReadOptions(direction="minimize")


def test_a_plug_in_that_cannot_be_imported_is_named(monkeypatch):
    class Point:
        name, value = "broken", "nowhere:thing"

        def load(self):
            raise ImportError("no module nowhere")

    monkeypatch.setattr("rankwise._core.plugins.entry_points", lambda group: [Point()])
    plugins.cache_clear()
    with pytest.warns(RunWarning, match=r"'broken' \(nowhere:thing\).*no module nowhere"):
        assert plugins("rankwise.test") == {}
    plugins.cache_clear()
