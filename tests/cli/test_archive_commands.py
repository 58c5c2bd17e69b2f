"""The commands around tuning: archives, training, and what there is."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import optuna
import pandas as pd
import pytest
from support import ROOT
from support.shell import QUICK, commands, enter, trials

from rankwise.archive import open_archive


@pytest.fixture
def folder(tmp_path, monkeypatch):
    return enter(tmp_path, monkeypatch)


@pytest.fixture
def rankwise(folder, monkeypatch, capsys):
    return commands(monkeypatch, capsys)


# ---------------------------------------------------------------------- archives


def table(folder: Path) -> str:
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"study": np.repeat(["a", "b", "c"], 8), "x": rng.random(24)})
    rows["value"] = (rows["x"] - 0.5).abs() + np.repeat([0, 1, 2], 8)
    rows.to_csv(folder / "trials.csv", index=False)
    return "trials.csv"


def test_studies_go_in_and_out_of_an_archive(rankwise, folder):
    come = ("archive", "import", table(folder), "--direction", "minimize")
    assert rankwise(*come).code == 0
    again = json.loads(rankwise(*come, "--json").out)
    assert {row["done"] for row in again} == {"there already"}
    rows = {row["name"]: row for row in json.loads(rankwise("archive", "ls", "--json").out)}
    assert list(rows) == ["a", "b", "c"] and rows["b"]["trials"] == 8 and rows["b"]["best"] > 1
    shown = rankwise("archive", "show", "b")
    assert "8 trials, minimize" in shown.out and "x" in shown.out
    assert len(json.loads(rankwise("archive", "show", "b", "--json").out)["all_trials"]) == 8
    assert "3 studies" in rankwise("archive", "describe").out
    facts = json.loads(rankwise("archive", "describe", "--json", "--like", "[ab]").out)
    assert [study["name"] for study in facts["studies"]] == ["a", "b"]
    named = ("archive", "describe", "--json", "--rename", "x=rate", "--known", "epochs=5")
    facts = json.loads(rankwise(*named).out)
    assert {p["name"]: p["low"] for p in facts["parameters"]}["epochs"] == 5
    assert {p["name"] for p in facts["parameters"]} == {"rate", "epochs"}
    assert facts["notes"] == ["renamed: x to rate (in 3 studies)", "known: epochs = 5"]
    (folder / "names.json").write_text('{"x": "rate"}')
    from_file = (*named[:3], "--rename", "names.json", *named[-2:])
    assert json.loads(rankwise(*from_file).out)["notes"] == facts["notes"]
    assert rankwise("archive", "describe", "--known", "epochs").code != 0
    assert rankwise("archive", "describe", "--half-life", "soon").code == 2
    renamed = (*come[:3], "--direction", "minimize", "--rename", "x=rate", "--archive", "new.db")
    assert rankwise(*renamed).code == 0 and "rate" in trials("sqlite:///new.db", "c")[0][0]
    for out in ("out.csv", "out.jsonl"):
        gone = json.loads(rankwise("archive", "export", out, "--json").out)
        assert gone["rows"] == 24
        back = ("archive", "import", out, "--direction", "minimize", "--archive", out + ".db")
        assert rankwise(*back).code == 0
        copied, original = (trials(f"sqlite:///{o}.db", "c") for o in (out, "rankwise"))
        assert [p["x"] for p, _ in copied] == pytest.approx([p["x"] for p, _ in original])
        assert [value for _, value in copied] == pytest.approx([value for _, value in original])
    renamed = ("archive", "import", "out.csv", "--direction", "minimize", "--rename", "x=rate")
    assert rankwise(*renamed, "--archive", "again.db").code == 0
    assert "rate" in trials("sqlite:///again.db", "c")[0][0]
    assert "2" not in rankwise("archive", "ls", "--like", "z*").out
    assert rankwise("archive", "show", "bb").code == 2


def test_runs_of_other_tools_are_imported(rankwise, folder):
    data = ROOT / "tests" / "data" / "sources"
    come = ("archive", "import", str(data / "ray_run"), "--metric", "loss", "--json")
    assert rankwise(*come).code == 1  # the direction is missing
    done = rankwise(*come, "--direction", "minimize")
    assert done.code == 0 and "Ray Tune: 6 trials" in done.err
    facts = json.loads(rankwise("archive", "show", "ray_run", "--json").out)
    assert facts["trials"] == 6 and facts["ok"] == 4
    study = optuna.load_study(study_name="ray_run", storage="sqlite:///rankwise.db")
    assert len(study.trials[0].intermediate_values) == 3
    began = open_archive(data / "ray_run", metric="loss", direction="minimize").studies[0].started
    assert study.trials[0].datetime_start.timestamp() == pytest.approx(began.timestamp())
    assert study.trials[0].datetime_start <= study.trials[1].datetime_start
    looked = rankwise("archive", "describe", str(data / "optuna.csv"), "--direction", "minimize")
    assert "a table of Optuna" in looked.out and "number, datetime_start" in looked.out


@pytest.mark.parametrize("name", ["optuna.csv", "cv_results.csv", "keras_run"])
def test_an_import_adds_nothing_that_the_source_does_not_know(rankwise, folder, name):
    source, goal = ROOT / "tests/data/sources" / name, ("--metric", "val_loss")
    options = goal if name == "keras_run" else ("--direction", "minimize")
    assert rankwise("archive", "import", str(source), *options).code == 0
    known = {"metric": "val_loss"} if name == "keras_run" else {"direction": "minimize"}
    before = {study.name: study for study in open_archive(source, **known).studies}
    for study in open_archive("sqlite:///rankwise.db").studies:
        past = before.pop(study.name)
        assert (study.params, study.pruned.tolist()) == (past.params, past.pruned.tolist())
        assert np.allclose(study.seconds, past.seconds, equal_nan=True)
        assert (study.started is None) == (past.started is None)
    assert not before


def test_what_a_storage_knows_is_copied_and_what_is_not_the_same_is_refused(rankwise, folder):
    rankwise("tune", "fruit.csv", "--target", "good", *QUICK, "--name", "one")
    come = ("archive", "import", "sqlite:///rankwise.db", "--archive", "copy.db")
    assert rankwise(*come).code == 0
    copied = optuna.load_study(study_name="one", storage="sqlite:///copy.db")
    original = optuna.load_study(study_name="one", storage="sqlite:///rankwise.db")
    assert copied.user_attrs == original.user_attrs
    assert [t.user_attrs for t in copied.trials] == [t.user_attrs for t in original.trials]
    rankwise("resume", "one", "--trials", "4")
    assert "replaced by the longer one" in rankwise(*come).out
    assert rankwise("resume", "one", "--trials", "5", "--archive", "copy.db").code == 0
    refused = rankwise(*come)
    assert refused.code == 1 and "refused" in refused.out and "--prefix" in refused.err
    assert rankwise(*come, "--prefix", "new-").code == 0
    assert len(trials("sqlite:///copy.db", "one")) == 5
    assert len(trials("sqlite:///copy.db", "new-one")) == 4


def test_deleting_needs_a_yes(rankwise, folder):
    rankwise("archive", "import", table(folder), "--direction", "minimize")
    assert rankwise("archive", "forget", "a").code == 2  # nobody is there to ask
    assert rankwise("archive", "forget", "a", "nothing", "--yes").code == 2
    gone = rankwise("archive", "forget", "a", "b", "--yes", "--json")
    assert json.loads(gone.out) == {"forgotten": ["a", "b"], "trials": 16}
    assert optuna.get_all_study_names("sqlite:///rankwise.db") == ["c"]


def test_training_before_it_is_needed(rankwise, folder):
    rankwise("archive", "import", table(folder), "--direction", "minimize")
    first = json.loads(rankwise("train", "--json").out)
    assert [row["studies"] for row in first["learnt"]] == [3] and first["learnt"][0]["new"]
    assert Path(first["learnt"][0]["model"]).exists()
    assert not json.loads(rankwise("train", "--json").out)["learnt"][0]["new"]
    assert "nothing new" in rankwise("train").out


def test_what_was_trained_is_what_the_next_search_uses(rankwise, folder):
    words = ("tune", "fruit.csv", "--target", "good", *QUICK[:4], "--trials", "6", "--seed")
    rankwise(*words, "1")
    [learnt] = json.loads(rankwise("train", "--json").out)["learnt"]
    assert learnt["what"] == "decision-tree" and learnt["builtin_studies"] > 50
    models = {path.name for path in (folder / "rankwise.db.rankwise").glob("*.safetensors")}
    assert json.loads(rankwise(*words, "2", "--json").out)["past"]
    after = {path.name for path in (folder / "rankwise.db.rankwise").glob("*.safetensors")}
    assert models and after == models


# ---------------------------------------------------------------------- what there is


def test_methods_spaces_and_doctor(rankwise):
    import rankwise as library

    names = [row["name"] for row in json.loads(rankwise("methods", "--json").out)]
    assert names == library.methods.available()
    few, every = rankwise("methods").out, rankwise("methods", "--all").out
    assert "auto" in few and "dre-ri" not in few and "--all" in few
    assert all(f" {name} " in every for name in names)
    spaces = {row["name"]: row for row in json.loads(rankwise("spaces", "--json").out)}
    assert "RandomForestClassifier" in spaces["random-forest"]["estimators"]
    assert "gamma" in rankwise("spaces", "svc").out and "svc" in rankwise("spaces").out
    facts = json.loads(rankwise("doctor", "--json").out)
    assert facts["broken"] == [] and facts["cores"] >= 1
    assert {"optuna", "torch"} <= {row["package"] for row in facts["packages"]}
    ill = rankwise("doctor", "--archive", "postgresql://127.0.0.1:1/x")
    assert ill.code == 1 and "cannot open" in ill.err


def test_doctor_finds_what_is_missing(rankwise, monkeypatch):
    from importlib import metadata

    needed = ["optuna>=9999", "not-there", "not-there-either; extra == 'bench'"]
    monkeypatch.setattr(metadata, "requires", lambda name: needed)
    found = rankwise("doctor")
    assert found.code == 1 and "optuna: version" in found.err
    assert "not-there: missing" in found.err and "not-there-either:" not in found.err


COMMANDS = [
    *("tune", "resume", "report", "train", "methods", "spaces", "doctor"),
    *(f"archive {name}" for name in ("ls", "show", "describe", "import", "export", "forget")),
]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_an_example_and_json(rankwise, command):
    found = rankwise(*command.split(), "--help")
    text = " ".join(found.out.split())
    assert found.code == 0 and f"Example: rankwise {command}" in text and "--json" in text


def test_help_is_quick_because_nothing_heavy_is_loaded():
    code = (
        "import sys; from rankwise.cli.app import app; from typer.testing import CliRunner; "
        "CliRunner().invoke(app, ['--help']); print(*sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"torch", "sklearn", "optuna", "pandas", "ConfigSpace", "numpy", "plotly"}
    assert not heavy & set(out.stdout.split())


def test_the_commands_of_the_documentation_exist(rankwise):
    text = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    lines = [
        line.split("#")[0].split()
        for block in re.findall(r"```bash\n(.*?)```", text, re.DOTALL)
        for line in block.splitlines()
    ]
    assert len(lines) >= 12
    for _, first, *rest in lines:
        command = [first, rest[0]] if first == "archive" else [first]
        found = rankwise(*command, "--help")
        assert found.code == 0
        for word in rest:
            assert not word.startswith("--") or word in found.out


def test_ls_lists_studies_that_cannot_be_unified(rankwise, folder):
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    for k, space in enumerate(({"x": (0.0, 1.0)}, {"x": (0.0, 1.0)}, {"x": ["a", "b"]})):
        study = optuna.create_study(storage="sqlite:///rankwise.db", study_name=f"s{k}")

        def objective(trial, space=space):
            spec = space["x"]
            if isinstance(spec, list):
                return len(trial.suggest_categorical("x", spec))
            return trial.suggest_float("x", *spec)

        study.optimize(objective, n_trials=3)
    found = rankwise("archive", "ls")
    assert all(f"s{k}" in found.out for k in range(3))
    assert "s2: parameter 'x' is not used: it is categorical here" in found.err
    rows = json.loads(rankwise("archive", "ls", "--json").out)
    assert [row["name"] for row in rows if row["not_unified"]] == ["s2"]


def test_train_takes_the_option_that_other_commands_have(rankwise, folder):
    come = ("archive", "import", table(folder), "--direction", "minimize", "--archive", "a.db")
    assert rankwise(*come).code == 0
    found = rankwise("train", "--archive", "a.db", "--json")
    assert found.code == 0, found.err
    assert json.loads(found.out)["learnt"]
    again = rankwise("train", "a.db", "--json")
    assert json.loads(again.out)["folder"] == json.loads(found.out)["folder"]


def test_doctor_lists_what_users_may_need_and_counts_in_english(rankwise, folder):
    optuna.create_study(storage="sqlite:///rankwise.db", study_name="s")
    facts = json.loads(rankwise("doctor", "--json").out)
    rows = {row["package"]: row for row in facts["packages"]}
    wanted = {"xgboost", "lightgbm", "catboost", "pyarrow", "openpyxl", "psycopg", "pymysql"}
    assert wanted <= set(rows) and len(rows) == len(facts["packages"])
    assert facts["archive"]["about"].endswith("has 1 study")
