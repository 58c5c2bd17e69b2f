"""Tables with a schema: the encoding, the splits, and what is said of damaged files."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
from support.work import count_calls

from bench.bench_data import DATA, needs_data
from rankwise.bench import benchmarks as registry
from rankwise.bench.table_benchmark import SOURCES, read_table
from rankwise.errors import BenchmarkDataError
from rankwise.history.task import Task

NAME = "tst-svm"
SCHEMA = {
    "direction": "maximize",
    "hyperparameters": [
        {"name": "size", "type": "int", "lower": 1, "upper": 64, "log": True},
        {"name": "kernel", "type": "categorical", "choices": ["rbf", "linear"]},
        {
            "name": "gamma",
            "type": "float",
            "lower": 0.1,
            "upper": 10,
            "log": True,
            "grid": [0.1, 0.3, 10],
            "condition": {"parent": "kernel", "values": ["rbf"]},
        },
        {"name": "always", "type": "categorical", "choices": ["one"]},
        {"name": "rate", "type": "float", "lower": 0.0, "upper": 0.7},
    ],
}
TASKS = [f"task{k}" for k in range(10)]
ROWS = 6


def arrays() -> dict[str, np.ndarray]:
    """Ten tasks of six rows, in single precision."""
    rng = np.random.default_rng(0)
    n = ROWS * len(TASKS)
    kernel = np.arange(n) % 2
    gamma = np.where(kernel == 0, rng.choice([0.1, 0.3, 10], n), np.nan)
    X = np.stack([rng.integers(1, 65, n), kernel, gamma, np.zeros(n), 0.7 * rng.random(n)], 1)
    X[0, 4], X[1, 4] = 0.0, 0.7
    return {
        "X": X.astype(np.float32),
        "y": rng.random(n),
        "task": np.repeat(np.arange(len(TASKS)), ROWS).astype(np.int32),
        "tasks": np.array(TASKS),
    }


@pytest.fixture
def write(tmp_path):
    def write(schema=SCHEMA, splits=None, **changes):
        folder = tmp_path / NAME
        folder.mkdir(exist_ok=True)
        (folder / "schema.json").write_text(json.dumps(schema))
        content = {k: v for k, v in (arrays() | changes).items() if v is not None}
        np.savez(folder / "data.npz", **content)
        if splits is not None:
            (tmp_path / "splits.json").write_text(json.dumps({NAME: splits}))
        read_table.cache_clear()
        registry.load.cache_clear()
        return tmp_path

    return write


def changed(j: int, **entries) -> dict:
    schema = json.loads(json.dumps(SCHEMA))
    schema["hyperparameters"][j] |= entries
    return schema


def configuration(row: np.ndarray) -> dict:
    """A row of the file as users would write it."""
    size, kernel, gamma, _, rate = row.tolist()
    rest = {"kernel": "linear", "size": int(size), "rate": rate}
    if kernel == 1:
        return rest
    grid = np.array([0.1, 0.3, 10])
    return rest | {"kernel": "rbf", "gamma": grid[np.argmin(np.abs(grid - gamma))]}


def test_rows_are_encoded_as_the_encoder_does_it(write):
    benchmark = registry.load(NAME, write())
    X = arrays()["X"].astype(float)
    expected = benchmark.encoder.encode(
        configuration(row) for row in np.clip(X, None, [64, 1, 99, 0, 0.7])
    )
    encoded = np.concatenate([benchmark.problem(task).X for task in TASKS])
    np.testing.assert_allclose(encoded, expected, rtol=0, atol=1e-10)


def test_numbers_in_single_precision_are_those_of_the_grid(write):
    benchmark = registry.load(NAME, write())
    rows = [c for t in TASKS for c in benchmark.encoder.decode(benchmark.history(t).X)]
    assert {c["gamma"] for c in rows if "gamma" in c} == {0.1, 0.3, 10.0}
    assert all(("gamma" in c) == (c["kernel"] == "rbf") for c in rows)
    assert all(isinstance(c["size"], int) for c in rows)


@pytest.mark.parametrize(("direction", "sign"), [("maximize", -1.0), ("minimize", 1.0)])
def test_the_direction_is_turned_once(write, direction, sign):
    benchmark = registry.load(NAME, write({**SCHEMA, "direction": direction}))
    y = sign * arrays()["y"][2 * ROWS : 3 * ROWS]
    problem, task = benchmark.problem("task2"), benchmark.history("task2")
    np.testing.assert_array_equal(problem.losses, y)
    np.testing.assert_array_equal(task.y, y)
    assert (problem.best, problem.worst) == (y.min(), y.max())
    assert isinstance(task, Task) and task.name == "task2"


def test_splits_and_initial_rows_are_those_of_the_file(write):
    splits = {
        "train": TASKS[:6],
        "validation": TASKS[6:7],
        "test": TASKS[7:9],
        "initial": {"task7": {"0": [3, 1, 4, 0, 5]}},
    }
    benchmark = registry.load(NAME, write(splits=splits))
    assert benchmark.train == tuple(TASKS[:6]) and benchmark.validation == ("task6",)
    assert benchmark.test == ("task7", "task8")
    np.testing.assert_array_equal(benchmark.problem("task7").initial(0), [3, 1, 4, 0, 5])
    assert len(benchmark.problem("task8").initial(0)) == 5


def test_without_splits_the_tasks_are_divided_always_in_the_same_way(write):
    data = write()
    first = registry.load(NAME, data)
    assert [len(part) for part in (first.train, first.validation, first.test)] == [7, 1, 2]
    assert {*first.train, *first.validation, *first.test} == set(TASKS)
    registry.load.cache_clear()
    assert registry.load(NAME, data).test == first.test


def test_it_can_be_sent_to_a_worker_without_its_rows(write):
    benchmark = registry.load(NAME, write())
    sent = pickle.loads(pickle.dumps(benchmark))
    np.testing.assert_array_equal(sent.problem("task0").X, benchmark.problem("task0").X)
    # A large table would otherwise be sent with every task.
    assert pickle.dumps(benchmark.problem).find(arrays()["y"].tobytes()[:16]) == -1


def value(j: int, number: float, row: int = 0) -> np.ndarray:
    X = arrays()["X"]
    X[row, j] = number
    return X


WRONG = {
    "no direction": ({"schema": {"hyperparameters": SCHEMA["hyperparameters"]}}, "direction"),
    "no hyperparameters": ({"schema": {"direction": "minimize"}}, '"hyperparameters" is missing'),
    "no type": ({"schema": changed(0, type="ordinal")}, "'size' has the unknown type 'ordinal'"),
    "nameless": (
        {"schema": {"direction": "minimize", "hyperparameters": [{"type": "int"}]}},
        "number 0 has no name",
    ),
    "no bound": (
        {
            "schema": {
                "direction": "minimize",
                "hyperparameters": [{"name": "size", "type": "int", "lower": 1}],
            }
        },
        "'size' has no 'upper'",
    ),
    "empty range": ({"schema": changed(0, lower=99)}, "the range .* is empty"),
    "no number": ({"schema": changed(4, lower="low")}, "schema.json: could not convert"),
    "unknown parent": (
        {"schema": changed(2, condition={"parent": "kernle", "values": ["rbf"]})},
        "names 'kernle'",
    ),
    "half a condition": ({"schema": changed(2, condition={"parent": "kernel"})}, "no values"),
    "too few columns": ({"X": arrays()["X"][:, :4]}, "X has 4 columns, the schema 5"),
    "outside": ({"X": value(0, 65.0)}, r"'size' is 65, which is not in \[1, 64\]"),
    "infinite": ({"X": value(4, np.inf)}, "'rate' is inf"),
    "no such choice": ({"X": value(1, 2.0)}, "'kernel' is 2"),
    "not whole": ({"X": value(0, 1.5)}, "'size' is not an integer"),
    "off the grid": ({"X": value(2, 0.2)}, "'gamma' is 0.2, which is not in the schema's grid"),
    "missing": ({"X": value(0, np.nan)}, "'size' has no value in row 0, where it is active"),
    "missing child": ({"X": value(2, np.nan)}, "'gamma' has no value in row 0"),
    "value of an inactive one": (
        {"X": value(2, 0.3, row=1)},
        "'gamma' has a value in row 1, where it is inactive",
    ),
    "NaN in y": ({"y": np.full(60, np.nan)}, "y is not finite in 60 rows"),
    "no y": ({"y": None}, "an array is missing"),
    "lengths": ({"y": np.zeros(59)}, "shapes"),
    "task number": ({"tasks": np.array(TASKS[:9])}, r"not in 0\.\.8"),
    "empty task": ({"tasks": np.array([*TASKS, "more"])}, "task 'more' has no rows"),
    "pickled": ({"tasks": np.array(TASKS, dtype=object)}, "data.npz: it cannot be read"),
    "split layout": ({"splits": {"train": TASKS}}, "a wrong layout"),
    "unknown task": (
        {"splits": {"train": [], "validation": [], "test": ["task99"]}},
        "names the task 'task99'",
    ),
    "task in two parts": (
        {"splits": {"train": ["task1"], "validation": [], "test": ["task1"]}},
        "'task1' is named twice",
    ),
    "initial row": (
        {
            "splits": {
                "train": [],
                "validation": [],
                "test": TASKS,
                "initial": {"task3": {"0": [0, 1, 2, 3, 6]}},
            }
        },
        r"an initial row of 'task3' is not in 0\.\.5",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_said_with_the_file(write, case):
    changes, message = WRONG[case]
    data = write(**changes)
    with pytest.raises(BenchmarkDataError, match=message) as caught:
        registry.load(NAME, data)
    assert str(data) in str(caught.value) and "correct the file" in str(caught.value)


@pytest.mark.parametrize("file", ["schema.json", "data.npz"])
def test_a_missing_or_damaged_file_is_named(write, file):
    data = write()
    (data / NAME / file).write_bytes(b"{no")
    with pytest.raises(BenchmarkDataError, match=f"{file}: it cannot be read"):
        registry.load(NAME, data)
    (data / NAME / file).unlink()
    with pytest.raises(BenchmarkDataError, match=f"{file} is not there: get it"):
        registry.load(NAME, data)


def test_a_cut_archive_cannot_be_read(write):
    path = write() / NAME / "data.npz"
    path.write_bytes(path.read_bytes()[:300])
    with pytest.raises(BenchmarkDataError, match="cannot be read"):
        registry.load(NAME, path.parents[1])


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(BenchmarkDataError, match=r"'oboe' needs the folder .*oboe"):
        registry.load("oboe", tmp_path)


@needs_data
@pytest.mark.parametrize("name", [source.name for source in SOURCES])
def test_the_real_tables_are_read(name):
    benchmark = registry.load(name, DATA)
    problem = benchmark.problem(benchmark.test[0])
    rows = benchmark.encoder.decode(problem.X[:50])
    np.testing.assert_allclose(benchmark.encoder.encode(rows), problem.X[:50], atol=1e-12)
    assert len(benchmark.past(benchmark.test[0])) == len(benchmark.train) >= 30
    assert problem.best < problem.worst and (problem.X >= 0).all() and (problem.X <= 1).all()


@needs_data
def test_real_rows_are_what_the_file_says():
    benchmark = registry.load("tst-svm", DATA)
    with np.load(DATA / "tst-svm" / "data.npz", allow_pickle=False) as file:
        rows = file["task"] == file["tasks"].tolist().index("bupa")
        raw, accuracy = file["X"][rows], file["y"][rows]
    problem = benchmark.problem("bupa")
    np.testing.assert_array_equal(problem.losses, -accuracy)
    for row, found in zip(raw, benchmark.encoder.decode(problem.X), strict=True):
        assert found["kernel"] == ("rbf", "poly", "linear")[int(row[0])]
        numbers = [found.get(key, np.nan) for key in ("C", "gamma", "degree")]
        np.testing.assert_allclose(numbers, row[1:], rtol=1e-9)


@needs_data
def test_a_large_table_is_read_fast():
    read_table.cache_clear()
    registry.load.cache_clear()
    rows = 219 * 320  # configurations and data sets
    assert count_calls(lambda: registry.load("oboe", DATA)) < rows


@needs_data
def test_modifiers_of_a_real_table():
    plain, fold = registry.load("tst-svm", DATA), registry.load("tst-svm:fold:inverted", DATA)
    assert fold.test == plain.train[::3] and len(fold.train) + len(fold.test) == 35
    task = fold.past(fold.test[0]).tasks[0]
    np.testing.assert_array_equal(task.y, -plain.history(task.name).y)
