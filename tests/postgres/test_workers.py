"""Many workers on one PostgreSQL server, some of which are killed.

make test-postgres
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import optuna
import pytest
from optuna.trial import FrozenTrial, TrialState

pytest.importorskip("psycopg")

from support.postgres import running_server
from worker import loss

WORKERS, KILLED, ASKED = 4, 2, 32
PATIENCE = 240.0  # seconds for all workers


@pytest.fixture
def url() -> Iterator[str]:
    with running_server() as address:
        yield address


@pytest.fixture
def study(url: str) -> optuna.Study:
    """The shared study with its tickets, and past ones on the same server."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    storage = optuna.storages.RDBStorage(url)
    for k in range(4):
        sampler = optuna.samplers.RandomSampler(seed=k)
        past = optuna.create_study(storage=storage, study_name=f"past-{k}", sampler=sampler)
        past.optimize(partial(loss, shift=0.2 * k), n_trials=15)
    shared = optuna.create_study(storage=storage, study_name="shared")
    for k in range(ASKED):
        shared.enqueue_trial({}, user_attrs={"ticket": k})
    return shared


class Workers:
    """Processes that work on the shared study, and what they say."""

    def __init__(self, study: optuna.Study, url: str, folder: Path) -> None:
        self.study, self.url, self.folder = study, url, folder
        self.started = 0
        self.running = [self._start() for _ in range(WORKERS)]

    def _start(self) -> subprocess.Popen[bytes]:
        self.started += 1
        environment = {**os.environ, "XDG_CACHE_HOME": str(self.folder), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, str(Path(__file__).with_name("worker.py")), self.url]
        with (self.folder / f"worker-{self.started}.log").open("w") as log:
            return subprocess.Popen(command, env=environment, stdout=log, stderr=log)

    def kill_and_restart(self, which: int) -> int:
        """SIGKILL to a worker in the middle of a trial; returns the number of the trial.

        It is stopped first, to look where it is: elsewhere than in a trial there is nothing to
        lose, and of a trial before its first heartbeat Optuna cannot know that it died.
        """
        worker = self.running[which]
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end and worker.poll() is None:
            worker.send_signal(signal.SIGSTOP)
            number = self._trial_of(worker.pid)
            if number is not None:
                worker.kill()
                worker.wait()
                self.running[which] = self._start()
                return number
            worker.send_signal(signal.SIGCONT)
            time.sleep(0.05)
        raise AssertionError(f"worker {which} was never in a trial:\n{self.said()}")

    def _trial_of(self, pid: int) -> int | None:
        for trial in self.study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            if trial.user_attrs.get("worker") == pid and self._beats(trial):
                return trial.number
        return None

    def _beats(self, trial: FrozenTrial) -> bool:
        import psycopg

        address = self.url.replace("+psycopg", "")
        query = "SELECT 1 FROM trial_heartbeats WHERE trial_id = %s"
        with psycopg.connect(address) as connection:
            return connection.execute(query, [trial._trial_id]).fetchone() is not None

    def join(self) -> None:
        end = time.monotonic() + PATIENCE
        for worker in self.running:
            worker.wait(max(0.0, end - time.monotonic()))

    def end(self) -> None:
        for worker in self.running:
            worker.kill()
            worker.wait()

    def said(self) -> str:
        logs = sorted(self.folder.glob("worker-*.log"))
        return "\n".join(f"{log.name}: {log.read_text()}" for log in logs)


def models(folder: Path) -> dict[Path, int]:
    """Files with what was learnt from the past, and when they were written."""
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*.safetensors")}


def wait_for_trials(study: optuna.Study, count: int) -> None:
    end = time.monotonic() + PATIENCE
    while len(study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))) < count:
        assert time.monotonic() < end, "no trial finishes"
        time.sleep(0.1)


@pytest.mark.parametrize("seed", range(int(os.environ.get("RANKWISE_REPEATS", "1"))))
def test_killed_workers_lose_and_repeat_nothing(
    study: optuna.Study, url: str, tmp_path: Path, seed: int
) -> None:
    moments = random.Random(seed)
    workers = Workers(study, url, tmp_path)
    try:
        wait_for_trials(study, 1)
        learnt = models(tmp_path)
        killed = []
        for which in moments.sample(range(WORKERS), KILLED):
            time.sleep(moments.uniform(0.0, 1.5))
            killed.append(workers.kill_and_restart(which))
        workers.join()
    finally:
        workers.end()
    said = workers.said()
    assert [worker.returncode for worker in workers.running] == [0] * WORKERS, said
    assert "no proposal could be made" not in said, said
    assert len(learnt) == 1 and models(tmp_path) == learnt  # by one worker, once
    check_trials(study.get_trials(), killed)


def check_trials(trials: list[FrozenTrial], killed: list[int]) -> None:
    """Each ticket was finished once, and each configuration tried once."""
    assert [trial.number for trial in trials] == list(range(len(trials)))
    finished = [trial for trial in trials if trial.state == TrialState.COMPLETE]
    assert sorted(trial.user_attrs["ticket"] for trial in finished) == list(range(ASKED))

    failed = {trial.number for trial in trials if trial.state == TrialState.FAIL}
    history = optuna.storages.RetryHeartbeatStaleTrialCallback.retry_history
    retried = {number for trial in finished for number in history(trial)}
    assert failed == set(killed) == retried
    for trial in finished:  # the work of a killed worker is done again, not something else
        for number in history(trial):
            assert trials[number].params.items() <= trial.params.items()

    rest = [t for t in trials if t.state not in (TrialState.COMPLETE, TrialState.FAIL)]
    assert all(t.state == TrialState.PRUNED and not t.params for t in rest)  # too late: no ticket

    tried = Counter(tuple(sorted(trial.params.items())) for trial in finished)
    twice = {params for params, times in tried.items() if times > 1}
    assert not twice, "\n".join(
        f"{t.number} {t.state.name} {t.params} {t.datetime_start} {t.datetime_complete} "
        f"{t.user_attrs} {t.system_attrs}"
        for t in trials
        if tuple(sorted(t.params.items())) in twice
    )
