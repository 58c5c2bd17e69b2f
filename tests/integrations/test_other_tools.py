"""The sampler among other tools: journals, proxies, dashboards, Ray Tune and own loops."""

from __future__ import annotations

import json
import multiprocessing
import socket
import warnings
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import optuna
import pytest
from optuna.distributions import CategoricalDistribution, IntDistribution
from optuna.storages import BaseStorage
from optuna.trial import TrialState

from rankwise import RankwiseSampler

KINDS = list("uvwxyz")
SPACE = {"kind": CategoricalDistribution(KINDS), "level": IntDistribution(0, 9)}

spawn = multiprocessing.get_context("spawn")


def loss(kind: str, level: int, shift: float = 0.0) -> float:
    return KINDS.index(kind) + abs(level - 4 - shift)


def objective(trial: optuna.Trial, shift: float = 0.0) -> float:
    kind = trial.suggest_categorical("kind", KINDS)
    return loss(kind, trial.suggest_int("level", 0, 9), shift)


def fill(storage: BaseStorage) -> BaseStorage:
    """Three past studies."""
    for k in range(3):
        sampler = optuna.samplers.RandomSampler(seed=k)
        past = optuna.create_study(storage=storage, study_name=f"past-{k}", sampler=sampler)
        past.optimize(partial(objective, shift=0.2 * k), n_trials=12)
    return storage


def make(archive: object) -> RankwiseSampler:
    return RankwiseSampler(archive, like="past-*", seed=0)


def configurations(study: optuna.Study) -> list[tuple[object, ...]]:
    return [tuple(sorted(trial.params.items())) for trial in study.trials]


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        yield


@pytest.fixture(autouse=True)
def no_random_proposals(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """A sampler that fails would still give trials; here that is an error."""
    yield
    assert "no proposal could be made" not in caplog.text


@pytest.fixture(scope="module")
def archive() -> BaseStorage:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return fill(optuna.storages.InMemoryStorage())


# ---------------------------------------------------------------------- loops of one's own


def test_ask_and_tell_in_batches(archive):
    study = optuna.create_study(sampler=make(archive))
    for _ in range(3):
        batch = [study.ask(SPACE) for _ in range(4)]  # all are chosen before any is evaluated
        for trial in reversed(batch):
            study.tell(trial, loss(**trial.params))
    assert len(set(configurations(study))) == 12
    assert all(trial.state == TrialState.COMPLETE for trial in study.trials)


def test_ask_and_tell_by_number_with_failures(archive):
    study = optuna.create_study(sampler=make(archive))
    for k in range(6):
        trial = study.ask()
        value = objective(trial)
        if k % 3 == 2:
            study.tell(trial.number, state=TrialState.FAIL)
        else:
            study.tell(trial.number, value)
    assert len(set(configurations(study))) == 6


def test_two_studies_may_share_a_sampler(archive):
    sampler = make(archive)
    studies = [optuna.create_study(sampler=sampler, study_name=name) for name in ("a", "b")]
    for _ in range(3):
        for study in studies:
            study.optimize(objective, n_trials=1)
    assert all(len(set(configurations(study))) == 3 for study in studies)


# ---------------------------------------------------------------------- storages


def open_journal(path: Path) -> BaseStorage:
    from optuna.storages.journal import JournalFileBackend

    return optuna.storages.JournalStorage(JournalFileBackend(str(path)))


def work_on_journal(path: Path, trials: int) -> None:
    """A worker process; the past is in the same file."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.load_study(
        storage=open_journal(path), study_name="shared", sampler=make(str(path))
    )
    study.optimize(objective, n_trials=trials)


def test_two_processes_share_a_journal_file(tmp_path):
    path = tmp_path / "studies.log"
    storage = fill(open_journal(path))
    study = optuna.create_study(storage=storage, study_name="shared")
    workers = [spawn.Process(target=work_on_journal, args=(path, 5)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
    assert [worker.exitcode for worker in workers] == [0, 0]
    assert len(set(configurations(study))) == 10
    assert all("rankwise:proposal" in trial.system_attrs for trial in study.trials)
    assert len(list(tmp_path.rglob("*.safetensors"))) == 1  # beside the journal, learnt once


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def serve_storage(url: str, port: int) -> None:
    storage = optuna.storages.RDBStorage(url)
    optuna.storages.run_grpc_proxy_server(storage, host="127.0.0.1", port=port)


def test_a_study_and_its_past_behind_a_grpc_proxy(tmp_path):
    pytest.importorskip("grpc")
    url, port = f"sqlite:///{tmp_path}/studies.db", free_port()
    fill(optuna.storages.RDBStorage(url))
    server = spawn.Process(target=serve_storage, args=(url, port), daemon=True)
    server.start()
    try:
        proxy = optuna.storages.GrpcStorageProxy(host="127.0.0.1", port=port)
        proxy.wait_server_ready(timeout=600)
        study = optuna.create_study(storage=proxy, sampler=make(proxy))
        study.optimize(objective, n_trials=4)
        assert len(set(configurations(study))) == 4
        assert study.sampler._past.names == {"kind", "level"}
        proxy.close()
    finally:
        server.terminate()
        server.join()


# ---------------------------------------------------------------------- dashboard


def get(application, path: str) -> dict[str, object]:
    """The answer of a WSGI application to a GET, which has to be 200."""
    from wsgiref.util import setup_testing_defaults

    path, _, query = path.partition("?")
    environ = {"PATH_INFO": path, "QUERY_STRING": query, "REQUEST_METHOD": "GET"}
    setup_testing_defaults(environ)
    statuses: list[str] = []
    body = b"".join(application(environ, lambda status, headers, *_: statuses.append(status)))
    assert statuses == ["200 OK"], body
    return json.loads(body)


def test_the_dashboard_shows_a_study(archive):
    dashboard = pytest.importorskip("optuna_dashboard")
    storage = optuna.storages.InMemoryStorage()
    study = optuna.create_study(storage=storage, study_name="mine", sampler=make(archive))
    study.optimize(objective, n_trials=5)
    application = dashboard.wsgi(storage)
    [summary] = get(application, "/api/studies")["study_summaries"]
    assert summary["study_name"] == "mine"
    detail = get(application, f"/api/studies/{summary['study_id']}?after=0")
    shown = [
        {item["name"]: item["param_external_value"] for item in trial["params"]}
        for trial in detail["trials"]
    ]
    assert shown == [
        {name: str(value) for name, value in trial.params.items()} for trial in study.trials
    ]
    get(application, f"/api/studies/{summary['study_id']}/param_importances")


# ---------------------------------------------------------------------- Ray Tune


def as_ray_suggests(searcher, trials: Sequence[str]) -> list[dict[str, object]]:
    """What Ray's loop does with a searcher, without Ray's processes."""
    found = []
    for trial in trials:
        config = searcher.suggest(trial)
        searcher.on_trial_result(trial, {"loss": loss(**config), "training_iteration": 1})
        searcher.on_trial_complete(trial, {"loss": loss(**config), "training_iteration": 1})
        found.append(config)
    return found


def test_ray_searches_with_the_sampler(archive, tmp_path):
    pytest.importorskip("ray.tune")
    from ray import tune
    from ray.tune.search.optuna import OptunaSearch

    def searcher():
        space = {"kind": tune.choice(KINDS), "level": tune.randint(0, 10)}
        space = OptunaSearch.convert_search_space(space)
        return OptunaSearch(space, metric="loss", mode="min", sampler=make(archive))

    first = searcher()
    found = as_ray_suggests(first, "abcd")
    first.save(str(tmp_path / "state"))
    found += as_ray_suggests(first, "efgh")
    assert len({tuple(config.items()) for config in found}) == 8
    second = searcher()
    second.restore(str(tmp_path / "state"))
    assert as_ray_suggests(second, "efgh") == found[4:]


def test_ray_tunes_with_the_sampler(archive, tmp_path):
    ray = pytest.importorskip("ray")
    pytest.importorskip("ray.tune")
    from ray import tune
    from ray.tune.search.optuna import OptunaSearch

    def train(config):  # all of it: Ray's processes cannot import this file
        return {"loss": config["level"]}

    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
    try:
        tuner = tune.Tuner(
            train,
            param_space={"kind": tune.choice(KINDS), "level": tune.randint(0, 10)},
            tune_config=tune.TuneConfig(
                metric="loss",
                mode="min",
                num_samples=2,
                search_alg=OptunaSearch(sampler=make(archive)),
            ),
            run_config=tune.RunConfig(storage_path=str(tmp_path), verbose=0),
        )
        results = tuner.fit()
    finally:
        ray.shutdown()
    assert not results.errors
    assert len({tuple(sorted(result.config.items())) for result in results}) == 2
