"""`rankwise tune --save`, `rankwise predict`, and the code that needs no rankwise."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile

import numpy as np
import pandas as pd
import pytest
from support.shell import commands, data, enter

QUICK = ("--trials", "2", "--cv", "2", "--archive", "none")
BLOCKED = """
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("rankwise", "optuna", "ConfigSpace"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Blocker())
"""


@pytest.fixture
def rankwise(tmp_path, monkeypatch, capsys):
    enter(tmp_path, monkeypatch)
    return commands(monkeypatch, capsys)


@pytest.fixture
def skops():
    return pytest.importorskip("skops.io")


def tuned(rankwise, table, target, estimator, *more):
    found = rankwise("tune", table, "--target", target, "--estimator", estimator, *QUICK, *more)
    assert found.code == 0, found.err
    return found


# ---------------------------------------------------------------------- files


@pytest.mark.parametrize("estimator", ["hist-gradient-boosting", "svc"])
def test_a_saved_model_predicts_labels(rankwise, skops, estimator):
    found = tuned(rankwise, "fruit.csv", "good", estimator, "--save", "model.skops")
    assert "rankwise predict model.skops" in found.err
    new = data(20).drop(columns="good")
    new.to_csv("new.csv", index=False)
    shown = rankwise("predict", "model.skops", "new.csv")
    assert shown.code == 0, shown.err
    lines = shown.out.splitlines()
    assert lines[0] == "prediction" and len(lines) == 21 and set(lines[1:]) <= {"yes", "no"}
    types = skops.get_untrusted_types(file="model.skops")
    model = skops.load("model.skops", trusted=types)
    assert lines[1:] == list(model.predict(new))


def test_predictions_as_files_json_and_probabilities(rankwise, skops):
    tuned(rankwise, "fruit.csv", "good", "random-forest", "--save", "model.skops")
    found = rankwise("predict", "model.skops", "fruit.csv", "--out", "p.csv", "--proba")
    assert "60 predictions: p.csv" in found.err and not found.out
    frame = pd.read_csv("p.csv")
    assert list(frame) == ["prediction", "probability of no", "probability of yes"]
    assert np.allclose(frame.iloc[:, 1:].sum(axis=1), 1)
    facts = json.loads(rankwise("predict", "model.skops", "fruit.csv", "--json").out)
    assert facts["prediction"] == list(frame["prediction"])


def test_a_saved_regression_and_a_resumed_study(rankwise, skops):
    words = ("--trials", "2", "--cv", "2", "--estimator", "ridge", "--name", "mine")
    assert rankwise("tune", "fruit.csv", "--target", "size", *words).code == 0
    assert rankwise("resume", "mine", "--save", "model.skops").code == 0
    found = rankwise("predict", "model.skops", "fruit.csv", "--json")
    size = pd.read_csv("fruit.csv")["size"]
    assert np.corrcoef(json.loads(found.out)["prediction"], size)[0, 1] > 0.3
    wrong = rankwise("predict", "model.skops", "fruit.csv", "--proba")
    assert wrong.code == 2 and "no predict_proba" in wrong.err


@pytest.mark.parametrize("estimator", ["xgboost", "lightgbm", "catboost"])
def test_models_of_other_packages_predict_labels(rankwise, skops, estimator):
    pytest.importorskip(estimator)
    tuned(rankwise, "fruit.csv", "good", estimator, "--save", "model.skops")
    found = rankwise("predict", "model.skops", "fruit.csv", "--json")
    assert found.code == 0, found.err
    assert set(json.loads(found.out)["prediction"]) <= {"yes", "no"}


def test_what_cannot_be_saved_or_predicted_gets_a_sentence(rankwise, skops, tmp_path, monkeypatch):
    words = ("tune", "fruit.csv", "--target", "good", "--estimator", "decision-tree", *QUICK)
    for path, message in (("m.pkl", "end with .skops"), ("no/m.skops", "there is no folder")):
        found = rankwise(*words, "--save", path)
        assert found.code == 2 and message in found.err and "best of" not in found.out
    rankwise(*words, "--save", "m.skops")
    pd.DataFrame({"size": [1.0]}).to_csv("other.csv", index=False)
    found = rankwise("predict", "m.skops", "other.csv")
    assert found.code == 1 and "'weight'" in found.err
    for name, content in (("a.skops", b"no zip"), ("b.skops", b"")):
        (tmp_path / name).write_bytes(content)
        found = rankwise("predict", name, "fruit.csv")
        assert found.code == 1 and "no model in the skops format" in found.err
    assert "there is no file" in rankwise("predict", "gone.skops", "fruit.csv").err
    monkeypatch.setitem(sys.modules, "skops", None)
    monkeypatch.setitem(sys.modules, "skops.io", None)
    found = rankwise(*words, "--save", "m.skops")
    assert found.code == 2 and '"rankwise[save]"' in found.err and "best of" not in found.out


def test_the_model_knows_whether_a_file_has_names(rankwise, skops):
    """Names that are numbers look like values beside other numbers."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 3000, (40, 2))
    frame = pd.DataFrame({"2001": x[:, 0], "2002": x[:, 1], "sum": (x.sum(axis=1) > 3000)})
    frame.to_csv("years.csv", index=False)
    tuned(rankwise, "years.csv", "sum", "decision-tree", "--save", "model.skops")
    frame[["2002", "2001"]].to_csv("numbers.csv", index=False)
    shown = rankwise("predict", "model.skops", "numbers.csv")
    assert shown.code == 0 and shown.out == rankwise("predict", "model.skops", "years.csv").out


class Stranger:
    def __init__(self) -> None:
        self.text = "x"


def test_types_that_are_not_ours_are_not_loaded(rankwise, skops):
    skops.dump(Stranger(), "stranger.skops")
    found = rankwise("predict", "stranger.skops", "fruit.csv")
    assert found.code == 1 and "Stranger" in found.err and "if you trust it" in found.err


def test_a_pickle_is_not_loaded(rankwise, skops, tmp_path):
    import pickle

    with zipfile.ZipFile("evil.skops", "w") as file:
        file.writestr("schema.json", pickle.dumps(Stranger()))
    assert rankwise("predict", "evil.skops", "fruit.csv").code == 1
    (tmp_path / "p.skops").write_bytes(pickle.dumps(Stranger()))
    assert rankwise("predict", "p.skops", "fruit.csv").code == 1


# ---------------------------------------------------------------------- code


@pytest.mark.parametrize(
    ("estimator", "target"),
    [("svc", "good"), ("ridge", "size")],
)
def test_the_code_runs_without_rankwise_and_does_the_same(rankwise, skops, estimator, target):
    found = tuned(rankwise, "fruit.csv", target, estimator, "--json", "--save", "model.skops")
    code = json.loads(found.out)["code"]
    assert "rankwise" not in code
    code += "print(list(model.predict(X)))"
    ran = subprocess.run(
        [sys.executable, "-c", BLOCKED + code], capture_output=True, text=True, check=True
    )
    ours = json.loads(rankwise("predict", "model.skops", "fruit.csv", "--json").out)["prediction"]
    last = ran.stdout.strip().splitlines()[-1]
    theirs = eval(last, {"np": np})
    assert list(theirs) == (ours if target == "good" else pytest.approx(ours))


def test_numbers_alone_need_no_column_transformer(rankwise):
    data().drop(columns="colour").to_csv("numbers.csv", index=False)
    found = tuned(rankwise, "numbers.csv", "good", "decision-tree", "--json")
    code = json.loads(found.out)["code"]
    assert "ColumnTransformer" not in code and "Pipeline" not in code and "rankwise" not in code
    exec(code, {})


@pytest.mark.parametrize(
    "column",
    [
        {"day": [f"2024-01-{1 + k % 28:02d}" for k in range(60)]},
        {"size": ["?" if k == 5 else str(k / 7) for k in range(60)]},
        {"good": ["yes" if k % 2 else None for k in range(60)]},
        {"colour": [f" c{k % 3}" for k in range(60)]},
    ],
)
def test_what_scikit_learn_alone_cannot_do_is_done_by_rankwise(rankwise, column):
    frame = data().assign(**column)
    if "good" in column:
        frame.loc[:30, "good"] = "no"
    frame.to_csv("messy.csv", index=False)
    found = tuned(rankwise, "messy.csv", "good", "decision-tree", "--json")
    code = json.loads(found.out)["code"]
    assert "from rankwise.tabular import" in code
    exec(code, {})
