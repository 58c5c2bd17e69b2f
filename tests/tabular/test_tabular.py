"""Tables of data as people have them: read, made into a problem, prepared."""

from __future__ import annotations

import gzip
import io
import pickle
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from rankwise.errors import RankwiseError, TableError
from rankwise.tabular import Preparation, Problem, read_table
from rankwise.tabular.reading import has_header


def written(tmp_path, text: str | bytes, name: str = "data.csv"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


# ---------------------------------------------------------------------- reading


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a,b\n1,x\n2.5,y\n", [[1.0, "x"], [2.5, "y"]]),
        ("a;b\n1,5;x\n2,5;y\n", [[1.5, "x"], [2.5, "y"]]),
        ("a\tb\n1.5\tx, y\n2.5\ty\n", [[1.5, "x, y"], [2.5, "y"]]),
        ("a|b\n1|x\n2|y\n", [[1, "x"], [2, "y"]]),
        ('"a","b"\n1,"x, ""z"""\n2,"two\nlines"\n', [[1, 'x, "z"'], [2, "two\nlines"]]),
        ("\ufeffa, b\r\n1, x\r\n2, y\r\n", [[1, "x"], [2, "y"]]),
        ("a,b\n1,x,\n2,y,\n", [[1, "x"], [2, "y"]]),
        ("a,b\n1;1,x;2\n2;2,y;3\n", [["1;1", "x;2"], ["2;2", "y;3"]]),
    ],
)
def test_text_files_however_they_are_written(tmp_path, text, expected):
    frame = read_table(written(tmp_path, text))
    assert list(frame.columns) == ["a", "b"]
    assert frame.to_numpy().tolist() == expected


def test_one_column_needs_no_delimiter(tmp_path):
    assert read_table(written(tmp_path, "a\n1\n2\n"))["a"].tolist() == [1, 2]


def test_names_of_rows_that_have_no_heading_are_dropped(tmp_path):
    frame = read_table(written(tmp_path, "a b\n".replace(" ", ",") + "r1,1,x\nr2,2,y\n"))
    assert frame.to_numpy().tolist() == [[1, "x"], [2, "y"]]


def test_encodings(tmp_path):
    text = "größe,b\n1,é\n2,y\n"
    for encoding in ("utf-8", "utf-8-sig", "latin-1", "utf-16"):
        frame = read_table(written(tmp_path, text.encode(encoding)))
        assert list(frame.columns) == ["größe", "b"] and frame["b"][0] == "é"


def test_a_letter_that_is_not_utf8_far_into_the_file(tmp_path):
    text = b"a,b\n" + b"1,x\n" * 50_000 + b"2,\xe9\n"
    assert read_table(written(tmp_path, text))["b"].iloc[-1] == "é"


def test_missing_values_and_compression(tmp_path):
    text = b"a,b\n?,x\n2,NA\n"
    path = written(tmp_path, gzip.compress(text), "data.csv.gz")
    frame = read_table(path)
    assert frame.isna().to_numpy().tolist() == [[True, False], [False, True]]


ARFF = """% a comment
@RELATION 'two words'
@attribute 'the name' numeric
@attribute kind {a, 'b c', "it's"}
@attribute "text" string
@attribute day date "yyyy-MM-dd"
@attribute plain{0,1}
@DATA
1.5, a, 'with, comma', 2024-05-31, 0
?, 'b c', "q\\"uote", 2024-06-01, 1
% another comment
-2e3,"it's",plain , ?, ?
"""


def test_arff(tmp_path):
    frame = read_table(written(tmp_path, ARFF, "data.arff"))
    assert list(frame.columns) == ["the name", "kind", "text", "day", "plain"]
    assert frame["the name"].tolist()[::2] == [1.5, -2000.0] and np.isnan(frame["the name"][1])
    assert frame["kind"].tolist() == ["a", "b c", "it's"]
    assert frame["text"].tolist() == ["with, comma", 'q"uote', "plain"]
    assert frame["day"][0] == pd.Timestamp("2024-05-31") and frame["day"].isna()[2]
    assert frame["plain"].tolist()[:2] == ["0", "1"] and frame["plain"].isna()[2]
    zipped = written(tmp_path, gzip.compress(ARFF.encode()), "data.arff.gz")
    pd.testing.assert_frame_equal(read_table(zipped), frame)


def test_parquet_or_the_package_that_is_missing(tmp_path):
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"a": [1, 2], "b": ["x", "y"]})
    frame.to_parquet(tmp_path / "data.parquet")
    pd.testing.assert_frame_equal(read_table(tmp_path / "data.parquet"), frame)


def test_parquet_without_its_package(tmp_path, monkeypatch):
    def fails(path):
        raise ImportError("no engine")

    monkeypatch.setattr(pd, "read_parquet", fails)
    with pytest.raises(TableError, match="pip install pyarrow"):
        read_table(written(tmp_path, b"PAR1....", "data.parquet"))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("data.csv", "", "is empty"),
        ("data.csv", " \n\n", "is empty"),
        ("data.csv", "a,b\n", "has no rows"),
        ("data.csv", "a,b,a,c,b\n1,2,3,4,5\n", "more than one column called 'a', 'b'"),
        ("data.csv", 'a;"b";b\n1;2;3\n', "more than one column called 'b'"),
        ("data.csv", "a,b\n1,2\n1,2\n1,2,3\n1,2\n", "line 4 has 3 fields where 2"),
        ("data.csv", bytes(range(256)) * 20, "not a text file"),
        ("data.csv.gz", b"no gzip at all", "cannot be read"),
        ("data.csv.gz", gzip.compress(b"a,b\n1,2\n" * 99, mtime=0)[:-20], "cannot be read"),
        ("data.zip", b"PK\x03\x04rest", "save the table as CSV"),
        ("data.arff", "@relation x\n@attribute a numeric\n", "no line @data"),
        ("data.arff", "@attribute a numeric\n@attribute a real\n@data\n1,2\n", "called 'a'"),
        ("data.arff", "@attribute a numeric\n@data\n1,2\n", "2 values where 1"),
        ("data.arff", "@attribute a numeric\n@data\nx\n", "'a' has the type numeric, but"),
        ("data.arff", "@attribute a numeric\n@data\n{0 1}\n", "sparse"),
        ("data.arff", "@attribute a\n@data\n1\n", "needs a name and a type"),
        ("data.arff", "a,b\n1,2\n", "expected is @attribute"),
        ("data.arff", "@data\n1\n", "no @attribute"),
    ],
)
def test_what_is_no_table_gets_a_sentence(tmp_path, name, content, message):
    with pytest.raises(TableError, match=message) as caught:
        read_table(written(tmp_path, content, name))
    assert "\n" not in str(caught.value) and str(tmp_path) in str(caught.value)


def test_a_folder_and_a_file_that_is_not_there(tmp_path):
    with pytest.raises(TableError, match="is a folder"):
        read_table(tmp_path)
    with pytest.raises(TableError, match="no file"):
        read_table(tmp_path / "nothing.csv")


# ---------------------------------------------------------------------- problems


def table(n: int = 40, **columns) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame({"x": rng.normal(size=n), "z": rng.normal(size=n), **columns})


@pytest.mark.parametrize(
    ("target", "kind"),
    [
        (["no", "yes"] * 20, "classification"),
        ([True, False] * 20, "classification"),
        ([0, 1] * 20, "classification"),
        ([1.0, 3.0] * 20, "classification"),
        ([1, 2, 3, 4] * 10, "classification"),
        ([0.5, 1.5] * 20, "regression"),
        (list(range(40)), "regression"),
        (list(range(20)) * 2, "regression"),
    ],
)
def test_the_task_is_guessed_and_said(target, kind):
    problem = Problem.of(table(y=target), "y")
    assert problem.kind == kind and kind in problem.notes[0] and "'y'" in problem.notes[0]
    assert list(problem.X.columns) == ["x", "z"] and len(problem) == 40


def test_the_task_can_be_given():
    assert Problem.of(table(y=[0, 1] * 20), "y", "regression").kind == "regression"
    problem = Problem.of(table(y=list(range(20)) * 2), "y", "classification")
    assert problem.kind == "classification" and len(problem.classes) == 20 and not problem.notes
    with pytest.raises(RankwiseError, match="unknown task 'classify'"):
        Problem.of(table(y=[0, 1] * 20), "y", "classify")


def test_labels_become_positions_of_sorted_classes():
    problem = Problem.of(table(y=["b", "a"] * 20), "y")
    assert problem.classes.tolist() == ["a", "b"] and problem.y[:2].tolist() == [1, 0]


def test_rows_without_a_target_are_left_out_and_counted():
    values = [0.5 * k for k in range(37)] + [np.nan, np.inf, None]
    problem = Problem.of(table(y=values), "y")
    assert len(problem) == len(problem.X) == 37 and problem.notes[0].startswith("3 rows without")


def test_a_class_with_one_row_is_left_out_with_a_note():
    problem = Problem.of(table(y=["a", "b"] * 19 + ["rare", "a"]), "y")
    assert problem.classes.tolist() == ["a", "b"] and len(problem) == 39
    assert "'rare'" in problem.notes[-1] and set(problem.y.tolist()) == {0, 1}


@pytest.mark.parametrize(
    ("frame", "target", "message"),
    [
        (table(1, y=["a"]), "y", "only 1 row"),
        (table(y=["a"] * 40), "y", "fewer than two classes"),
        (table(y=["a"] * 39 + ["b"]), "y", "fewer than two classes"),
        (table(y=[f"t{k}" for k in range(40)]), "y", "fewer than two classes"),
        (table(y=[2.5] * 40), "y", "2.5 in every row"),
        (table(y=[np.nan] * 40), "y", "only 0 rows"),
        (table(Price=[1] * 40), "price", "Did you mean 'Price'"),
        (table(target=[1] * 40), "targt", "Did you mean 'target'"),
        (
            table(y=[1] * 40).rename(columns={"x": "0", "z": "1", "y": "2"}),
            "y",
            "no line of names",
        ),
        (pd.DataFrame({"y": [0, 1] * 20}), "y", "no column but the target"),
    ],
)
def test_what_cannot_be_learnt_from_gets_a_sentence(frame, target, message):
    with pytest.raises(TableError, match=message) as caught:
        Problem.of(frame, target)
    assert "\n" not in str(caught.value)


def test_numbers_are_wanted_for_a_regression():
    with pytest.raises(TableError, match="--task classification"):
        Problem.of(table(y=["a", "b"] * 20), "y", "regression")


def test_splits_keep_every_class_where_it_is_learnt():
    problem = Problem.of(table(203, y=["a"] * 180 + ["b"] * 20 + ["c"] * 3), "y")
    train, held = problem.split(0.2, seed=1)
    assert len(train) + len(held) == 203
    assert np.bincount(held.y, minlength=3).tolist() == [36, 4, 1]
    again, _ = problem.split(0.2, seed=1)
    assert again.X.equals(train.X) and not problem.split(0.2, seed=2)[0].X.equals(train.X)
    rows = {tuple(row) for part in (train, held) for row in part.X.to_numpy()}
    assert len(rows) == 203


def test_a_split_of_few_rows_holds_out_one():
    problem = Problem.of(table(10, y=["a", "b"] * 5), "y")
    assert [len(part) for part in problem.split(0.01, 0)] == [9, 1]


def test_a_million_rows_are_sampled_with_their_shares():
    n = 1_000_000
    rng = np.random.default_rng(0)
    y = (rng.random(n) < 0.01).astype(int)
    problem = Problem.of(pd.DataFrame({"x": rng.normal(size=n), "y": y}), "y")
    some = problem.sample(20_000, 0)
    assert len(some) == pytest.approx(20_000, abs=2)
    assert some.y.mean() == pytest.approx(y.mean(), abs=1e-4)
    assert some.sample(30_000, 0) is some


def test_a_million_rows_are_read(tmp_path):
    n = 1_000_000
    rng = np.random.default_rng(0)
    file = io.StringIO()
    np.savetxt(file, rng.integers(0, 100, (1000, 3)), fmt="%d", delimiter=",")
    path = tmp_path / "big.csv"
    with path.open("w") as out:
        out.write("a,b,y\n")
        for _ in range(n // 1000):
            out.write(file.getvalue())
    frame = read_table(path)
    assert frame.shape == (n, 3) and frame.dtypes.map(str).tolist() == ["int64"] * 3


# ---------------------------------------------------------------------- preparation


def messy(n: int = 60) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    days = rng.integers(1, 28, n)
    return pd.DataFrame(
        {
            "Unnamed: 0": range(n),
            "number": rng.normal(size=n),
            "holes": np.where(rng.random(n) < 0.3, np.nan, rng.normal(5.0, 2.0, size=n)),
            "infinite": [np.inf, -np.inf, 1e300, *range(n - 3)],
            "truth": rng.random(n) < 0.5,
            "text": rng.choice(["red", "green", None], n),
            "dotted": [f"{d:02d}.07.2024" for d in days],
            "slashed": [f"7/{d}/2024" for d in days],
            "iso": [f"2024-07-{d:02d}T10:30:00" for d in days],
            "almost": [*(str(k) for k in range(n - 1)), "n.a."],
            "name": [f"person {k}" for k in range(n)],
            "constant": 1.5,
            "nothing": np.nan,
            "once": ["x"] * n,
        }
    )


def test_columns_are_taken_for_what_they_are():
    prepare = Preparation(impute=False, scale=False).fit(messy())
    assert list(prepare.dropped_) == ["Unnamed: 0", "name", "constant", "nothing", "once"]
    assert prepare.kinds_["text"] == "text" and prepare.kinds_["truth"] == "number"
    notes = " ".join(prepare.notes)
    for name in (*prepare.dropped_, "dotted", "slashed", "iso", "almost"):
        assert repr(name) in notes
    out = pd.DataFrame(prepare.transform(messy()), columns=prepare.get_feature_names_out())
    july = pd.Timestamp("2024-07-01").timestamp() / 86400 - 1
    days = out["slashed"] - july
    assert days.between(1, 28).all() and out["dotted"].equals(out["slashed"])
    assert np.allclose(out["iso"], out["slashed"] + 10.5 / 24)
    assert out["almost"].isna().tolist() == [False] * 59 + [True]
    assert out["infinite"].isna().sum() == 3
    assert [name for name in out if name.startswith("text")] == [
        "text_green",
        "text_red",
        "text_nan",
    ]


def test_missing_numbers_are_imputed_and_all_are_scaled():
    frame = messy()
    out = Preparation().fit_transform(frame)
    assert np.isfinite(out).all()
    numbers = out[:, :4]
    assert np.allclose(numbers.mean(axis=0), 0) and np.allclose(numbers.std(axis=0), 1)
    raw = Preparation(scale=False).fit(frame[["number", "holes"]])
    filled = raw.transform(frame)[:, 1][frame["holes"].isna()]
    assert np.allclose(filled, frame["holes"].median())


def test_the_training_rows_alone_decide():
    train = pd.DataFrame({"a": ["u", "v"] * 20, "b": [1.0, 2.0] * 20, "c": [3] * 40})
    prepare = Preparation(scale=False).fit(train)
    new = pd.DataFrame({"c": [4.0], "b": ["oops"], "a": ["never seen"], "more": [1]})
    assert prepare.transform(new).tolist() == [[1.5, 0.0, 0.0]]


def test_rare_texts_are_one_category():
    texts = ["common"] * 990 + [f"rare{k % 5}" for k in range(10)]
    prepare = Preparation().fit(pd.DataFrame({"t": texts}))
    assert prepare.get_feature_names_out().tolist() == ["t_common", "t_infrequent_sklearn"]
    assert prepare.transform(pd.DataFrame({"t": ["new"]})).tolist() == [[0.0, 1.0]]


def test_day_or_month_first_is_what_fits_all_rows():
    frame = pd.DataFrame({"d": [f"{d}/{m}/2020" for d in (3, 14, 25) for m in range(1, 13)]})
    assert Preparation().fit(frame).kinds_ == {"d": "%d/%m/%Y"}


def test_a_preparation_can_be_cloned_pickled_and_refuses_other_tables():
    prepare = Preparation(scale=False).fit(messy())
    again = pickle.loads(pickle.dumps(prepare))
    assert np.array_equal(again.transform(messy()), prepare.transform(messy()), equal_nan=True)
    assert clone(prepare).get_params() == {"impute": True, "scale": False}
    with pytest.raises(TableError, match="no column 'number'"):
        prepare.transform(messy().drop(columns="number"))
    with pytest.raises(TableError, match=r"no column can be predicted from: 'a'"):
        Preparation().fit(pd.DataFrame({"a": [1, 1, 1]}))


def test_arrays_are_tables_too():
    X = np.array([[1.0, np.nan], [2.0, 3.0], [4.0, 5.0]])
    assert Preparation(scale=False).fit_transform(X).tolist() == [[1, 4], [2, 3], [4, 5]]


# ---------------------------------------------------------------------- no names, identifiers


IRIS = "5.1,3.5,1.4,0.2,Iris-setosa\n4.9,3.0,1.4,0.2,Iris-setosa\n4.7,?,1.3,0.2,Iris-setosa\n"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (IRIS, False),
        ("1,14.23,1.71\n1,13.2,1.78\n2,13.16,2.36\n", False),  # a value twice in the first line
        ("1;2,5\n2;3,5\n", False),
        ("?,1\n2,3\n4,5\n", False),
        ("a,b\n1,2\n3,4\n", True),
        (",a\n0,1\n1,2\n", True),  # an index without a name
        ("0,1,2,label\n5,9,1,x\n4,4,2,y\n", True),  # indices as names
        ("1,2\n5,9\n4,4\n", True),
        ("x,2001,2002\nu,5,9\nv,4,4\n", True),
        ("red,yes\nblue,no\n", True),  # texts only: nobody can know
        ("a\n1\n", True),
        ("a,b\n", True),
    ],
)
def test_a_first_line_of_values_is_noticed(tmp_path, text, named):
    path = written(tmp_path, text)
    assert has_header(path) is named
    lines = text.strip().splitlines()
    if len(lines) > 1:
        frame = read_table(path)
        assert len(frame) == len(lines) - named
        if not named:
            assert list(frame.columns) == [str(k) for k in range(frame.shape[1])]
        assert len(read_table(path, header=False)) == len(lines)


def test_a_first_line_may_be_names_by_decision(tmp_path):
    path = written(tmp_path, "7,9\n1,2\n3,4\n")
    assert read_table(path)["1"].tolist() == [9, 2, 4]
    assert read_table(path, header=True)["9"].tolist() == [2, 4]


def test_other_formats_have_names(tmp_path):
    assert has_header(written(tmp_path, ARFF, "data.arff"))
    assert has_header(written(tmp_path, b"PK\x03\x04rest", "data.xlsx"))


def test_a_spreadsheet_or_the_package_that_is_missing(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(TableError, match="pip install openpyxl, or save the table as CSV"):
        read_table(written(tmp_path, b"PK\x03\x04rest", "data.xlsx"))
    monkeypatch.undo()
    pytest.importorskip("openpyxl")
    frame = pd.DataFrame({"a": [1, 2], "b": ["x", "y"]})
    frame.to_excel(tmp_path / "table.xlsx", index=False)
    pd.testing.assert_frame_equal(read_table(tmp_path / "table.xlsx"), frame)
    with pytest.raises(TableError, match="cannot be read as a spreadsheet"):
        read_table(written(tmp_path, b"PK\x03\x04rest", "broken.xlsx"))


@pytest.mark.parametrize(
    "name", ["id", "ID", "customer_id", "PassengerId", "customerID", "row number", "Index", "Nr"]
)
def test_numbers_that_identify_rows_are_left_out_with_a_note(name):
    numbers = np.random.default_rng(0).permutation(1000)[:40]
    frame = table(**{name: numbers}, y=np.tile([0, 1], 20))
    problem = Problem.of(frame, "y")
    assert name not in problem.X
    assert any("identifies the rows" in note and repr(name) in note for note in problem.notes)


def test_the_index_of_a_shuffled_data_frame_is_left_out(tmp_path):
    frame = table(y=np.tile([0, 1], 20))
    frame.sample(frac=1, random_state=0).to_csv(tmp_path / "shuffled.csv")
    problem = Problem.of(read_table(tmp_path / "shuffled.csv"), "y")
    assert list(problem.X) == ["x", "z"]


def test_a_target_by_index_in_a_file_with_names_gets_a_hint():
    with pytest.raises(TableError, match="--no-header"):
        Problem.of(table(u=["a", "b"] * 20, y=np.tile([0, 1], 20)), "1")


def test_numbers_that_count_the_rows_are_left_out_if_they_come_first():
    count, y = np.arange(1, 41), np.tile([0, 1], 20)
    weight = np.random.default_rng(0).normal(size=40)
    first = pd.DataFrame({"t": count, "weight": weight, "y": y})
    assert list(Problem.of(first, "y").X) == ["weight"]
    later = pd.DataFrame({"weight": weight, "t": count, "y": y})
    assert list(Problem.of(later, "y").X) == ["weight", "t"]


@pytest.mark.parametrize(
    "column",
    [
        {"humid": np.random.default_rng(0).permutation(1000)[:40]},  # ends with "id", is no id
        {"id": np.repeat(np.arange(20), 2)},  # rows that belong together
        {"id": np.random.default_rng(0).normal(size=40)},
        {"paid": np.arange(40) * 7},
    ],
)
def test_other_numbers_stay(column):
    [name] = column
    frame = table(**column, y=np.tile([0, 1], 20))
    assert name in Problem.of(frame, "y").X


def test_a_table_of_nothing_but_identifiers_keeps_them():
    frame = pd.DataFrame({"id": np.arange(40), "y": np.tile([0, 1], 20)})
    assert list(Problem.of(frame, "y").X) == ["id"]
