"""YAHPO's surrogates: what the network is given, the tasks, and damaged files."""

from __future__ import annotations

import json
import pickle
import sys

import numpy as np
import pytest

from bench.bench_data import DATA, needs_data
from rankwise.bench import benchmarks as registry
from rankwise.bench import yahpo_benchmark as yahpo
from rankwise.bench.yahpo_benchmark import PAST, SCENARIOS, read_files
from rankwise.errors import BenchmarkDataError

NAME = "rbv2_rpart"
IMPUTE = "num.impute.selected.cpo"
TASKS = [str(number) for number in range(100, 130)]


def number(name: str, low: float, high: float, log: bool = False, kind: str = "float") -> dict:
    return {"name": name, "type": f"uniform_{kind}", "lower": low, "upper": high, "log": log}


def space() -> dict:
    return {
        "hyperparameters": [
            number("cp", 0.001, 1.0, log=True),
            *(number(name, 1, 30, kind="int") for name in ("maxdepth", "minbucket", "minsplit")),
            {"name": IMPUTE, "type": "categorical", "choices": ["mean", "hist"]},
            number("repl", 1, 10, kind="int"),
            {"name": "task_id", "type": "categorical", "choices": TASKS[::-1]},
            number("trainsize", 0.03, 1.0),
        ],
        "conditions": [],
    }


def encoding() -> dict:
    return {
        IMPUTE: {"#na#": 0, "hist": 1, "mean": 2},
        "task_id": {"#na#": 0} | {task: k + 1 for k, task in enumerate(TASKS)},
    }


class Network:
    """In place of a network: remembers what it is given; accuracy is a function of it."""

    outputs = 9

    def __init__(self):
        self.given = []

    def run(self, outputs, inputs):
        self.given.append(inputs)
        metrics = np.zeros((len(inputs["x_cat"]), self.outputs), dtype=np.float32)
        metrics[:, 0] = 0.5 - 0.001 * inputs["x_cat"][:, 0] - 0.01 * inputs["x_cont"][:, 1]
        return [metrics]


@pytest.fixture
def network(monkeypatch):
    network = Network()
    monkeypatch.setattr(yahpo, "_session", lambda path: network)
    return network


@pytest.fixture
def write(tmp_path):
    def write(config=None, numbers=None):
        folder = tmp_path / "yahpo" / NAME
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config_space.json").write_text(json.dumps(config or space()))
        (folder / "encoding.json").write_text(json.dumps(numbers or encoding()))
        (folder / "model.onnx").write_bytes(b"no network")
        read_files.cache_clear()
        registry.load.cache_clear()
        return tmp_path

    return write


def test_the_network_is_given_its_columns_in_its_order(write, network):
    benchmark = registry.load(NAME, write())
    configuration = {"cp": 0.01, "maxdepth": 7, "minbucket": 3, "minsplit": 9, IMPUTE: "hist"}
    problem = benchmark.problem("104")
    network.given.clear()
    loss = problem.evaluate(configuration)
    (inputs,) = network.given
    assert inputs["x_cat"].dtype == np.int32 and inputs["x_cat"].tolist() == [[5, 1]]
    assert inputs["x_cont"].dtype == np.float32
    np.testing.assert_allclose(inputs["x_cont"], [[0.01, 7, 3, 9, 1.0, 10]], rtol=1e-6)
    assert loss == pytest.approx(1 - (0.5 - 0.005 - 0.07), rel=1e-6)


def test_the_space_has_neither_task_nor_fidelities(write, network):
    encoder = registry.load(NAME, write()).encoder
    assert set(encoder.names) == {"cp", "maxdepth", "minbucket", "minsplit", IMPUTE}


def test_tasks_are_divided_always_in_the_same_way(write, network):
    data = write()
    first = registry.load(NAME, data)
    parts = (first.train, first.validation, first.test)
    assert [len(part) for part in parts] == [10, 10, 10]
    assert sorted(sum(parts, ())) == TASKS
    registry.load.cache_clear()
    assert registry.load(NAME, data).test == first.test


def test_a_past_task_is_one_call_of_the_network(write, network):
    benchmark = registry.load(NAME, write())
    assert network.given == []
    task = benchmark.history(benchmark.train[0])
    assert len(network.given) == 1 and len(task) == PAST
    np.testing.assert_array_equal(task.y, benchmark.history(benchmark.train[0]).y)


def test_regrets_are_relative_to_a_sample(write, network):
    problem = registry.load(NAME, write()).problem("100")
    expected = 1 - (0.5 - 0.001 - 0.01 * np.array([1, 30]))  # the ends of maxdepth
    np.testing.assert_allclose([problem.best, problem.worst], expected, rtol=1e-6)


def test_inactive_hyperparameters_have_numbers_of_their_own(write, network):
    config = space()
    config["conditions"] = [
        {"child": "minsplit", "parent": IMPUTE, "type": "EQ", "value": "hist"},
        {"child": "minbucket", "parent": "maxdepth", "type": "IN", "values": [7, 8]},
    ]
    benchmark = registry.load(NAME, write(config))
    problem = benchmark.problem("100")
    network.given.clear()
    problem.evaluate({"cp": 0.5, "maxdepth": 9, IMPUTE: "mean"})
    problem.evaluate({"cp": 0.5, "maxdepth": 8, "minbucket": 4, "minsplit": 2, IMPUTE: "hist"})
    given = np.concatenate([inputs["x_cont"] for inputs in network.given])
    np.testing.assert_allclose(given[:, 1:4], [[9, 0, 0], [8, 4, 2]])


def test_an_inactive_choice_is_the_missing_one(write, network):
    config = space()
    config["conditions"] = [{"child": IMPUTE, "parent": "maxdepth", "type": "EQ", "value": 30}]
    problem = registry.load(NAME, write(config)).problem("100")
    network.given.clear()
    problem.evaluate({"cp": 0.5, "maxdepth": 9, "minbucket": 4, "minsplit": 2})
    assert network.given[0]["x_cat"].tolist() == [[1, 0]]


def without(key: str) -> dict:
    config = space()
    config["hyperparameters"] = [h for h in config["hyperparameters"] if h["name"] != key]
    return config


WRONG = {
    "no space": ({"config": {"a": 1}}, "config_space.json: it has a wrong layout"),
    "no task": ({"config": without("task_id")}, "a wrong layout .*task_id"),
    "a hyperparameter is missing": ({"config": without("cp")}, "a wrong layout .*cp"),
    "no such condition": (
        {"config": space() | {"conditions": [{"type": "GT"}]}},
        "config_space.json: a condition of type 'GT' is not supported",
    ),
    "no number": (
        {"numbers": encoding() | {IMPUTE: {"#na#": 0, "hist": 1}}},
        "encoding.json: .* has no number for 'mean'",
    ),
    "no numbers": ({"numbers": {"task_id": 3}}, "'task_id' has no number for '#na#'"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_said_with_the_file(write, network, case):
    changes, message = WRONG[case]
    data = write(**changes)
    with pytest.raises(BenchmarkDataError, match=message) as caught:
        registry.load(NAME, data)
    assert str(data) in str(caught.value)


def test_a_network_with_other_outputs_is_refused(write, network):
    benchmark = registry.load(NAME, write())
    network.outputs = 3
    with pytest.raises(BenchmarkDataError, match=r"model.onnx: it returns \(3,\), not 9 metrics"):
        benchmark.history("100")


def test_a_damaged_network_is_named_when_the_benchmark_is_loaded(write):
    pytest.importorskip("onnxruntime")
    with pytest.raises(BenchmarkDataError, match=r"model.onnx: ONNX Runtime cannot open it"):
        registry.load(NAME, write())


def test_a_missing_package_names_the_extra(write, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(BenchmarkDataError, match=r'onnxruntime.*"rankwise\[bench\]"'):
        registry.load(NAME, write())


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(BenchmarkDataError, match=r"'iaml_glmnet' needs the folder .*iaml_glmnet"):
        registry.load("iaml_glmnet", tmp_path)


@needs_data
@pytest.mark.parametrize("name", SCENARIOS)
def test_the_real_surrogates_give_plausible_errors(name):
    pytest.importorskip("onnxruntime")
    benchmark = registry.load(name, DATA)
    problem = pickle.loads(pickle.dumps(benchmark)).problem(benchmark.test[0])
    assert 0 <= problem.best < problem.worst <= 1
    task = benchmark.history(benchmark.test[0])
    configurations = benchmark.encoder.decode(task.X)
    losses = [problem.evaluate(c) for c in configurations[:20]]
    np.testing.assert_allclose(losses, task.y[:20], atol=1e-6)
    assert task.y.min() >= problem.best - 0.02 and task.y.max() <= problem.worst + 0.02


@needs_data
def test_the_real_tasks_and_their_past():
    pytest.importorskip("onnxruntime")
    trees, nets = registry.load(NAME, DATA), registry.load("iaml_glmnet", DATA)
    assert [len(p) for p in (trees.train, trees.validation, trees.test)] == [97, 10, 10]
    assert nets.leave_one_out and [t.name for t in nets.past("1067").tasks] == [
        "1489",
        "40981",
        "41146",
    ]
