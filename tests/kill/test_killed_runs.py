"""Runs that are killed at random points and resumed: nothing is lost, and nothing is done twice.

make test-kill
make test-kill ARGS=-s                    # with counts
RANKWISE_REPEATS=20 make test-kill        # at more points
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.trial import FrozenTrial, TrialState
from support import TESTS

sys.path.insert(0, str(TESTS / "kill"))

from support.postgres import running_server
from work import TRIALS, logged, loss, open_storage, run

REPEATS = int(os.environ.get("RANKWISE_REPEATS", "1"))
KILLS = 3  # of one run
WORKERS = 3

pytestmark = pytest.mark.parametrize("seed", range(REPEATS))


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    pytest.importorskip("psycopg")
    with running_server() as url:
        yield url


@pytest.fixture(params=["sqlite", "journal", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/studies.db"
    if request.param == "journal":
        return str(tmp_path / "studies.journal")
    url = str(request.getfixturevalue("server"))
    import psycopg

    name = f"t{abs(hash(str(tmp_path)))}"
    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return f"{url.removesuffix('/postgres')}/{name}"


def start(*words: str) -> subprocess.Popen[bytes]:
    """A process in a group of its own, which can be killed with all that it started."""
    path = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, *words], start_new_session=True, env=environment,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def kill(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def lines(log: Path) -> list[tuple[str, str]]:
    """What an objective wrote: "begin" or "end", and the configuration."""
    text = log.read_text() if log.exists() else ""
    said = [json.loads(line) for line in text.split("\n")[:-1]]
    return [(word, repr(configuration)) for word, configuration in said]


def finished(address: str, name: str) -> list[FrozenTrial]:
    """The complete trials of a study; none if it does not exist yet."""
    try:
        study = optuna.load_study(study_name=name, storage=open_storage(address))
    except KeyError:
        return []
    return study.get_trials(states=(TrialState.COMPLETE,))


def facts(trials: list[FrozenTrial]) -> dict[int, tuple[dict[str, Any], float | None]]:
    return {trial.number: (trial.params, trial.value) for trial in trials}


def test_minimize(address: str, tmp_path: Path, seed: int) -> None:
    moments, log = random.Random(seed), tmp_path / "log"
    script = str(TESTS / "kill" / "work.py")
    killed, stored = 0, 0
    for point in sorted(moments.sample(range(1, 2 * TRIALS - 2), KILLS)):
        process = start(script, "minimize", address, str(log))
        while len(lines(log)) < point and process.poll() is None:
            time.sleep(0.002)
        time.sleep(moments.uniform(0.0, 0.1))
        killed += process.poll() is None
        kill(process)
        before = facts(finished(address, "killed"))
        assert len(before) >= stored  # what was stored stays
        stored, position = len(before), len(lines(log))
    result = run(logged(str(log)), open_storage(address))
    whole = run(loss, None)
    expected = [trial.configuration for trial in whole.trials]
    assert [trial.configuration for trial in result.trials] == expected
    assert [trial.value for trial in result.trials] == [loss(c) for c in expected]
    after = facts(finished(address, "killed"))
    assert len(after) == TRIALS and before.items() <= after.items()
    # What was stored is not evaluated again, what was not is.
    again = [word for word, _ in lines(log)[position:]]
    assert again.count("end") == TRIALS - stored
    ended = Counter(configuration for word, configuration in lines(log) if word == "end")
    twice = sum(count - 1 for count in ended.values())
    assert len(ended) == TRIALS and twice <= killed  # only between the end and the storage
    print(f"minimize: {killed} kills, {TRIALS} trials, {twice} repeated, 0 lost")


def test_tune(address: str, tmp_path: Path, seed: int) -> None:
    moments, trials = random.Random(seed), 6
    table = tmp_path / "table.csv"
    rows = [(moments.random(), moments.random(), moments.random()) for _ in range(60)]
    table.write_text("a,b,y\n" + "".join(f"{a},{b},{'no' if a + c < b else 'yes'}\n"
                                         for a, b, c in rows))  # fmt: skip
    words = ["-m", "rankwise.cli", "tune", str(table), "--target", "y", "--past", "none"]
    words += ["--estimator", "k-neighbors", "--trials", str(trials), "--seed", "1"]
    words += ["--cv", "2", "--name", "killed"]
    calm = f"sqlite:///{tmp_path}/calm.db"
    assert start(*words, "--archive", calm).wait() == 0
    killed = 0
    before: dict[int, Any] = {}
    for point in sorted(moments.sample(range(1, trials), 2)):
        process = start(*words, "--archive", address)
        while len(finished(address, "killed")) < point and process.poll() is None:
            time.sleep(0.002)
        time.sleep(moments.uniform(0.0, 0.05))
        killed += process.poll() is None
        kill(process)
        left = facts(finished(address, "killed"))
        assert before.items() <= left.items()
        before = left
    resume = ["-m", "rankwise.cli", "resume", "killed", "--archive", address]
    assert start(*resume).wait() == 0
    after = facts(finished(address, "killed"))
    assert before.items() <= after.items()
    assert list(after.values()) == list(facts(finished(calm, "killed")).values())
    assert len(after) == trials
    print(f"tune: {killed} kills, {trials} trials, 0 repeated, 0 lost")


def test_workers(address: str, tmp_path: Path, seed: int) -> None:
    moments, log = random.Random(seed), tmp_path / "log"
    storage = open_storage(address)
    study = optuna.create_study(storage=storage, study_name="shared")
    words = [str(TESTS / "kill" / "work.py"), "worker", address, str(log)]
    workers = [start(*words) for _ in range(WORKERS)]
    killed = 0
    try:
        for point in sorted(moments.sample(range(2, 2 * TRIALS - 4), 2)):
            while len(lines(log)) < point and any(w.poll() is None for w in workers):
                time.sleep(0.002)
            time.sleep(moments.uniform(0.0, 0.1))
            which = moments.randrange(WORKERS)
            killed += workers[which].poll() is None
            kill(workers[which])
            workers[which] = start(*words)
        assert [worker.wait() for worker in workers] == [0] * WORKERS
    finally:
        for worker in workers:
            if worker.poll() is None:
                kill(worker)
    trials = study.get_trials()
    assert [trial.number for trial in trials] == list(range(len(trials)))
    complete = [trial for trial in trials if trial.state == TrialState.COMPLETE]
    assert TRIALS <= len(complete) < TRIALS + WORKERS  # the others finish what they began
    assert len(trials) - len(complete) <= killed  # the trials of those that died
    assert all(trial.value == loss(trial.params) for trial in complete)
    told = Counter(repr(sorted(trial.params.items())) for trial in complete)
    assert set(told.values()) == {1}
    ended = [configuration for word, configuration in lines(log) if word == "end"]
    assert len(complete) <= len(ended) <= len(complete) + killed
    lost = len(ended) - len(complete)  # between the end of an evaluation and the storage
    print(f"workers: {killed} kills, {len(complete)} trials, 0 repeated, {lost} cut off")
