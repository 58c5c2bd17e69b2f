"""HPO-B's layout: modes, the box of the columns, initial rows, and damaged files."""

from __future__ import annotations

import json
import pickle
import sys
import tracemalloc

import numpy as np
import pytest

from bench.bench_data import DATA, needs_data
from rankwise.archive.sources.hpob_tables import box
from rankwise.bench import benchmarks as registry
from rankwise.bench.hpob_benchmark import MODES, read_space, space_source
from rankwise.errors import BenchmarkDataError, UnknownNameError

SPACE, OTHER = "5860", "5970"
COLUMNS = 12
PARTS = {
    "train": ["1", "2"],
    "validation": ["3"],
    "test": ["4", "5"],
    "train-augmented": ["1", "6"],
}


def content(name: str, n: int = 20, columns: int = COLUMNS) -> dict:
    rng = np.random.default_rng(int(name))
    return {"X": rng.random((n, columns)).tolist(), "y": rng.random((n, 1)).tolist()}


def file_name(part: str) -> str:
    first, *rest = part.split("-")
    return "-".join(["meta", first, "dataset", *rest]) + ".json"


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "hpob-data"
    folder.mkdir()
    for part, names in PARTS.items():
        tables = {name: content(name) for name in names}
        spaces = {OTHER: {"9": content("9", columns=3)}, SPACE: tables, "1": {"8": content("8")}}
        (folder / file_name(part)).write_text(json.dumps(spaces))
    rows = {SPACE: {"4": {f"test{k}": list(range(k, k + 5)) for k in range(5)}}}
    (folder / "bo-initializations.json").write_text(json.dumps(rows))
    read_space.cache_clear()
    registry.load.cache_clear()
    return tmp_path


def change(data, part: str, edit) -> None:
    path = data / "hpob-data" / file_name(part)
    content = json.loads(path.read_text())
    edit(content)
    path.write_text(json.dumps(content))


def test_the_splits_are_those_of_the_files(data):
    benchmark = registry.load(SPACE, data)
    assert benchmark.name == SPACE
    assert (benchmark.train, benchmark.validation, benchmark.test) == (
        ("1", "2"),
        ("3",),
        ("4", "5"),
    )
    assert [task.name for task in benchmark.past("4").tasks] == ["1", "2"]


@pytest.mark.parametrize(
    ("mode", "train", "validation", "test"),
    [
        ("v1", "", "", "16345"),
        ("v2", "", "", "12345"),
        ("v3", "12", "3", "45"),
        ("v3-test", "", "", "45"),
        ("v3-train-augmented", "16", "3", "45"),
    ],
)
def test_modes_of_the_handler(data, mode, train, validation, test):
    benchmark = registry.load(f"{SPACE}:{mode}", data)
    parts = (benchmark.train, benchmark.validation, benchmark.test)
    assert parts == (tuple(train), tuple(validation), tuple(test))
    assert len(benchmark.past("4")) == len(train)
    assert benchmark.name == (SPACE if mode == "v3" else f"{SPACE}:{mode}")
    for name in test:
        assert len(set(benchmark.problem(name).initial(0).tolist())) == 5


def test_where_all_is_optimised_the_same_task_may_be_in_two_files(data):
    change(data, "train", lambda spaces: spaces[SPACE].update({"4": content("4")}))
    assert registry.load(f"{SPACE}:v2", data).test == ("1", "2", "4", "3", "5")


def test_only_the_test_file_is_needed_to_test(data):
    for part in ("train", "validation", "train-augmented"):
        (data / "hpob-data" / file_name(part)).unlink()
    assert registry.load(f"{SPACE}:v3-test", data).test == ("4", "5")
    with pytest.raises(BenchmarkDataError, match=r"meta-train-dataset.json is not there"):
        registry.load(SPACE, data)


def test_an_unknown_mode_lists_modes_and_modifiers(data):
    with pytest.raises(UnknownNameError, match=r"v3-train-augmented.*fold") as caught:
        registry.load(f"{SPACE}:v4", data)
    assert all(mode in str(caught.value) for mode in MODES)


def test_modes_and_modifiers_go_together(data):
    name = f"{SPACE}:v3-train-augmented:inverted"
    benchmark = registry.load(name, data)
    assert benchmark.name == name
    np.testing.assert_allclose(benchmark.past("4").tasks[0].y, np.ravel(content("1")["y"]))


def test_y_is_maximised_and_rows_keep_their_order(data):
    problem, raw = registry.load(SPACE, data).problem("5"), content("5")
    np.testing.assert_array_equal(problem.losses, -np.ravel(raw["y"]))
    np.testing.assert_array_equal(problem.X, raw["X"])


def test_initial_rows_are_given_by_seed_or_drawn(data):
    benchmark = registry.load(SPACE, data)
    np.testing.assert_array_equal(benchmark.problem("4").initial(3), [3, 4, 5, 6, 7])
    first = benchmark.problem("5").initial(3)
    np.testing.assert_array_equal(first, benchmark.problem("5").initial(3))
    assert len(benchmark.problem("4").initial(5)) == 5


@pytest.mark.parametrize("place", [".", "hpob", "hpob-data"])
def test_the_files_may_be_in_several_places(data, place):
    folder = data / "hpob-data"
    new = data / place
    if place == ".":
        for path in folder.iterdir():
            path.rename(data / path.name)
        folder.rmdir()
    elif new != folder:
        folder.rename(new)
    assert registry.load(SPACE, data).test == ("4", "5")


def test_the_box_holds_the_unit_cube_and_every_train_row(data):
    def widen(spaces):
        spaces[SPACE]["2"]["X"][0][1] = -3.0
        spaces[SPACE]["1"]["X"][7][11] = 5.0

    change(data, "train", widen)
    benchmark = registry.load(SPACE, data)
    column = np.array(benchmark.history("1").X)[:, 11]
    raw = np.array(content("1")["X"])[:, 11]
    raw[7] = 5.0
    np.testing.assert_allclose(column, raw / 5.0)
    assert benchmark.encoder.parameters[1].lower == -3.0
    assert benchmark.encoder.parameters[11].upper == 5.0
    problem = np.array(content("4")["X"])
    np.testing.assert_allclose(benchmark.problem("4").X[:, 1], (problem[:, 1] + 3) / 4)


def test_scaling_is_undone_and_leaves_the_unit_cube_alone():
    rng = np.random.default_rng(0)
    inside = rng.random((30, COLUMNS))
    np.testing.assert_array_equal(box([inside]).scale(inside), inside)
    wide = 20 * inside - 5
    bounds = box([wide[:10], wide[10:]])
    scaled = bounds.scale(wide)
    assert scaled.min() == 0 and scaled.max() == 1
    np.testing.assert_allclose(bounds.unscale(scaled), wide)


def test_columns_keep_their_order_in_the_space():
    bounds = box([np.arange(2.0, 14.0)[None]])
    uppers = [parameter.upper for parameter in bounds.encoder.parameters]
    assert uppers == bounds.upper.tolist() == list(range(2, 14))
    X = np.random.default_rng(0).random((4, 12)).round(6)
    values = [list(c.values()) for c in bounds.encoder.decode(X)]
    np.testing.assert_allclose(values, bounds.unscale(X))


def test_it_can_be_sent_to_a_worker(data):
    sent = pickle.loads(pickle.dumps(registry.load(SPACE, data)))
    np.testing.assert_array_equal(sent.problem("4").X, content("4")["X"])


def test_other_spaces_are_not_kept_in_memory(data):
    def fill(spaces):
        spaces["large"] = {str(k): content(str(k), n=800) for k in range(20, 60)}

    change(data, "train", fill)
    path = data / "hpob-data" / file_name("train")
    tracemalloc.start()
    read_space(path.parent, SPACE, "v3")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < path.stat().st_size / 5


def edit_first(key: str, value):
    def edit(spaces):
        spaces[SPACE]["1"][key] = value

    return edit


WRONG = {
    "no y": (lambda s: s[SPACE]["1"].pop("y"), "task '1' of space '5860' has a wrong layout"),
    "no table": (
        lambda s: s[SPACE].update({"1": 3}),
        "task '1' of space '5860' has a wrong layout",
    ),
    "ragged": (edit_first("X", [[1.0], [2.0, 3.0]]), "a wrong layout"),
    "text": (edit_first("y", ["a"] * 20), "a wrong layout"),
    "lengths": (edit_first("y", [1.0, 2.0]), r"X of shape \(20, 12\) and 2 values in y"),
    "empty": (edit_first("X", []), "of shape"),
    "null": (edit_first("y", [[None]] * 20), "not finite"),
    "columns": (lambda s: s[SPACE].update({"1": content("1", columns=3)}), "differ in columns"),
    "twice": (
        lambda s: s[SPACE].update({"4": content("4")}),
        "task '4' .* is in another part, too",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_another_layout_is_said_with_file_and_space(data, case):
    edit, message = WRONG[case]
    change(data, "train", edit)
    with pytest.raises(BenchmarkDataError, match=message) as caught:
        registry.load(SPACE, data)
    assert "hpob-data" in str(caught.value) and SPACE in str(caught.value)


@pytest.mark.parametrize("part", ["train", "test"])
def test_a_cut_file_is_said_to_be_damaged(data, part):
    path = data / "hpob-data" / file_name(part)
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(BenchmarkDataError, match=f"{path.name}: it cannot be read"):
        registry.load(SPACE, data)


def test_a_space_that_is_not_there_lists_the_known_ones(data):
    with pytest.raises(BenchmarkDataError, match="no tasks of the space '77': choose one of 5860"):
        registry.load("77", data)


@pytest.mark.parametrize(
    ("rows", "message"),
    [({"4": {"test0": [20]}}, r"not in 0\.\.19"), ({"4": [1, 2]}, "a wrong layout")],
)
def test_wrong_initial_rows_are_refused(data, rows, message):
    path = data / "hpob-data" / "bo-initializations.json"
    path.write_text(json.dumps({SPACE: rows}))
    with pytest.raises(BenchmarkDataError, match=message):
        registry.load(SPACE, data)


def test_without_its_files_hpob_says_where_to_put_them(tmp_path):
    with pytest.raises(BenchmarkDataError, match=r"none of .*hpob-data.*: unpack"):
        registry.load("5906", tmp_path)


def test_a_missing_package_names_the_extra(data, monkeypatch):
    monkeypatch.setitem(sys.modules, "ijson", None)
    with pytest.raises(BenchmarkDataError, match=r'ijson.*pip install "rankwise\[bench\]"'):
        space_source(SPACE).load(data)


@needs_data
def test_the_tasks_of_tst_svm_in_this_layout():
    benchmark, same = registry.load("tst-svm-hpob", DATA), registry.load("tst-svm", DATA)
    assert [len(p) for p in (benchmark.train, benchmark.validation, benchmark.test)] == [35, 5, 10]
    problem = benchmark.problem("bupa")
    np.testing.assert_array_equal(problem.losses, same.problem("bupa").losses)
    np.testing.assert_array_equal(problem.initial(1), [233, 174, 261, 57, 243])
    assert problem.X.min() == 0 and problem.X.max() == 1
    fold = registry.load("tst-svm-hpob:fold", DATA)
    assert fold.test == benchmark.train[::3]
