"""The command line as people use it: in a terminal, in scripts, with mistakes."""

from __future__ import annotations

import html.parser
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import optuna
import pandas as pd
import pytest
from support.shell import QUICK, SCRIPT, commands, data, enter, executed, in_terminal, trials

from rankwise.cli.app import main


@pytest.fixture
def folder(tmp_path, monkeypatch):
    return enter(tmp_path, monkeypatch)


@pytest.fixture
def rankwise(folder, monkeypatch, capsys):
    return commands(monkeypatch, capsys)


# ---------------------------------------------------------------------- tune


def test_tune_ends_with_code_that_runs_and_an_estimate(rankwise, folder):
    found = rankwise("tune", "fruit.csv", "--target", "good", *QUICK, "--report", "out.html")
    assert found.code == 0, found.err
    assert "taken for classification" in found.err and "sqlite:///rankwise.db" in found.err
    assert "best of 3 trials: decision-tree" in found.out and "cross-validation" in found.out
    assert re.search(r"default .*\d", found.out) and re.search(r"guessing .* 0.5 ", found.out)
    assert "on new rows expect" in found.err and (folder / "out.html").stat().st_size > 1000
    report = (folder / "out.html").read_text(encoding="utf-8")
    typed = "rankwise tune fruit.csv --target good --estimator decision-tree --cv 2 --trials 3"
    assert typed in " ".join(report.split()) and "<dd>sqlite:///rankwise.db</dd>" in report
    code = found.out[found.out.index("import pandas") :]
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(re.findall(r"\w+", ran.stdout)) <= {"yes", "no"}


def test_json_is_all_that_is_on_standard_output(rankwise):
    words = ("tune", "fruit.csv", "--target", "size", *QUICK, "--json", "--name", "mine")
    found = rankwise(*words)
    facts = json.loads(found.out)
    assert facts["study"] == "mine" and facts["task"] == "regression" and facts["metric"] == "r2"
    assert facts["trials"] == 3 and facts["held_out"]["rows"] == 12
    [study] = optuna.get_all_study_summaries("sqlite:///rankwise.db")
    assert facts["best"]["score"] == pytest.approx(study.best_trial.value)
    again = json.loads(rankwise(*words).out)
    assert again["best"] == facts["best"] and again["held_out"] == facts["held_out"]
    session = executed(facts["code"])
    held = pd.read_csv("fruit.csv")
    assert np.isfinite(session["model"].predict(held.drop(columns="size"))).all()


def test_several_estimators_and_no_archive(rankwise, folder):
    words = ("tune", "fruit.csv", "--target", "good", "--trials", "4", "--cv", "2", "--json")
    facts = json.loads(rankwise(*words, "--archive", "none", "--holdout", "0").out)
    choices = {"hist-gradient-boosting", "random-forest", "logistic-regression", "svc"}
    assert facts["estimator"] in choices and facts["held_out"] is None
    assert not (folder / "rankwise.db").exists()
    executed(facts["code"])


def test_a_second_study_learns_from_the_first_and_is_compared(rankwise, folder):
    for seed in ("1", "2"):
        words = ("tune", "fruit.csv", "--target", "good", "--estimator", "gaussian-nb")
        limits = ("--trials", "5", "--cv", "2", "--seed", seed, "--json", "--compare")
        found = rankwise(*words, *limits)
        assert found.code == 0, found.err
        facts = json.loads(found.out)
        if seed == "1":
            assert facts["past"] == [] and facts["without_history"] is None
            assert "nothing to compare" in found.err
    assert facts["without_history"]["study"] == facts["study"] + "-without-history"
    assert len(facts["past"]) == 1
    made = rankwise("report", facts["study"], "--out", "later.html", "--json")
    assert json.loads(made.out)["report"] == "later.html" and (folder / "later.html").exists()


def test_the_same_command_again_goes_on_or_shows_the_result(rankwise):
    words = ("tune", "fruit.csv", "--target", "good", *QUICK[:4])
    first = rankwise(*words, "--trials", "2")
    assert "starts" in first.err
    name = re.search(r"study (\S+) starts", first.err)[1]
    assert name.startswith("fruit-decision-tree-")
    again = rankwise(*words, "--trials", "2")
    assert f"study {name} already has its 2 trials" in again.err and again.code == 0
    assert first.out == again.out
    more = rankwise(*words, "--trials", "4")
    assert f"study {name} continues after 2 of 4 trials" in more.err
    assert len(trials("sqlite:///rankwise.db", name)) == 4


def test_a_report_that_cannot_be_written_costs_no_result(rankwise):
    words = ("tune", "fruit.csv", "--target", "good", *QUICK, "--report", "/proc/no/report.html")
    found = rankwise(*words)
    assert found.code == 1 and "best of 3 trials" in found.out and "/proc/no" in found.err


def test_time_is_up_is_no_failure(rankwise):
    words = ("tune", "fruit.csv", "--target", "good", *QUICK[:4], "--trials", "500")
    facts = json.loads(rankwise(*words, "--timeout", "0.5", "--json").out)
    assert facts["stopped"] == "seconds" and 1 <= facts["trials"] < 500


def test_a_million_rows(rankwise, folder):
    rng = np.random.default_rng(0)
    block = pd.DataFrame(rng.integers(0, 9, (1000, 3)), columns=["a", "b", "y"])
    block["y"] = (block["a"] + block["b"] > 8).astype(int)
    text = block.to_csv(index=False, header=False)
    with (folder / "big.csv").open("w") as file:
        file.write("a,b,y\n")
        for _ in range(1000):
            file.write(text)
    found = rankwise("tune", "big.csv", "--target", "y", *QUICK, "--trials", "2", "--json")
    facts = json.loads(found.out)
    assert "The search uses 20000 of 800000 rows" in found.err
    assert facts["held_out"]["rows"] == 20_000 and facts["held_out"]["tuned"]["score"] > 0.9
    assert "table.sample(20000" in facts["code"]


def test_messy_columns_and_rare_classes(rankwise):
    frame = data(80)
    frame["empty"], frame["same"], frame["id"] = np.nan, 7, [f"id{k}" for k in range(80)]
    frame["day"] = [f"2024-01-{1 + k % 28:02d}" for k in range(80)]
    frame.loc[::7, "weight"] = np.nan
    frame.loc[3, "good"] = None
    frame.loc[4, "good"] = "maybe"
    frame.to_csv("messy.csv", index=False)
    for estimator in ("ridge", "random-forest"):
        words = ("tune", "messy.csv", "--target", "good", "--estimator", estimator)
        found = rankwise(*words, "--trials", "2", "--cv", "2", "--json")
        facts = json.loads(found.out)
        notes = " ".join(facts["notes"])
        for said in ("'empty'", "'same'", "'id'", "'day'", "1 row without", "'maybe'"):
            assert said in notes
        assert f"scale={estimator == 'ridge'}" in facts["code"] or "Preparation()" in facts["code"]
        executed(facts["code"])


# ---------------------------------------------------------------------- in a terminal


def test_ctrl_c_keeps_all_and_resume_goes_on_as_if_nothing_had_happened(folder, rankwise):
    words = ("tune", "fruit.csv", "--target", "good", *QUICK[:2], "--trials", "10")
    stopped = in_terminal(folder, *words, at=" 2/10", then="\x03")
    assert stopped.code == 130, stopped.text
    assert "best 0." in stopped.text and "left" in stopped.text and "Traceback" not in stopped.text
    name, kept = re.search(r"study (\S+) starts", stopped.text)[1], "of 10 trials are kept"
    assert kept in stopped.text and f"rankwise resume {name}" in stopped.text
    before = [t for t in trials("sqlite:///rankwise.db", name) if t[1] is not None]
    assert 2 <= len(before) < 10
    resumed = in_terminal(folder, "resume", name)
    assert resumed.code == 0, resumed.text
    assert f"continues after {len(before)} of 10" in resumed.text and "10/10" in resumed.text
    whole = rankwise(*words, "--archive", "sqlite:///other.db")
    assert whole.code == 0, whole.err
    expected = trials("sqlite:///other.db", name)
    assert len(expected) == 10 and trials("sqlite:///rankwise.db", name) == expected
    second = in_terminal(folder, *words)
    assert second.code == 0 and "already has its 10 trials" in second.text


def test_forget_asks(folder, rankwise):
    rankwise("tune", "fruit.csv", "--target", "good", *QUICK, "--name", "old")
    kept = in_terminal(folder, "archive", "forget", "old", at="[y/N]", then="n\n")
    assert kept.code == 1 and "study 'old' with 3 trials" in kept.text
    assert len(trials("sqlite:///rankwise.db", "old")) == 3
    gone = in_terminal(folder, "archive", "forget", "old", at="[y/N]", then="y\n")
    assert gone.code == 0 and "deleted" in gone.text
    assert optuna.get_all_study_names("sqlite:///rankwise.db") == []


def test_names_complete_in_the_shell(folder):
    def completed(line: str) -> list[str]:
        shell = {"_RANKWISE_COMPLETE": "complete_bash", "COMP_WORDS": line}
        count = str(len(line.split(" ")) - 1)
        env = {**os.environ, **shell, "COMP_CWORD": count}
        run = subprocess.run([str(SCRIPT)], env=env, capture_output=True, text=True, check=False)
        return run.stdout.split()

    assert completed("rankwise tune fruit.csv --estimator random-") == ["random-forest"]
    assert completed("rankwise tune fruit.csv --method eb-") == ["eb-gp", "eb-net"]
    assert completed("rankwise tune fruit.csv --metric roc_auc_ovr_") == ["roc_auc_ovr_weighted"]
    assert {"tune", "train"} <= set(completed("rankwise t"))


# ---------------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ("tune fruit.csv", 2, "'size', 'weight', 'colour', 'good'"),
        ("tune fruit.csv --target goood", 1, "Did you mean 'good'?"),
        ("tune nothing.csv --target good", 1, "there is no file nothing.csv"),
        ("tune . --target good", 1, "is a folder"),
        ("tune empty.csv --target good", 1, "is empty"),
        ("tune garbage.csv --target good", 1, "not a text file"),
        ("tune one.csv --target good", 1, "only 1 row"),
        ("tune twice.csv --target good", 1, "more than one column called 'size'"),
        ("tune single.csv --target good", 1, "fewer than two classes"),
        ("tune hollow.csv --target good", 1, "no column can be predicted from"),
        ("tune fruit.csv --target good --task regression", 1, "does not hold numbers"),
        ("tune fruit.csv --target good --task clustering", 2, "unknown task 'clustering'"),
        ("tune fruit.csv --target good --estimator forest", 2, "'random-forest'"),
        ("tune fruit.csv --target good --estimator lasso", 2, "unknown classification"),
        ("tune fruit.csv --target good --estimator svc --metric neg_log_loss", 2, "predict_proba"),
        ("tune fruit.csv --target good --metric roc_auk", 2, "Did you mean 'roc_auc'?"),
        ("tune fruit.csv --target good --metric r2", 2, "it is for regression"),
        ("tune fruit.csv --target good --method mboo", 2, "Did you mean 'mbo'?"),
        ("tune fruit.csv --target good --holdout 2", 2, "--holdout"),
        ("tune fruit.csv --target good --archive what.txt", 2, "--archive is"),
        ("tune fruit.csv --target good --archive sqlite:////proc/x.db", 1, "cannot open"),
        ("tune fruit.csv --target good --archive postgresql://127.0.0.1:1/x", 1, "cannot open"),
        ("resume nothing", 1, "no such file"),
        ("resume nothing --archive postgresql://a:secret@127.0.0.1:1/x", 1, "a:***@"),
        ("report nothing --archive nothing.log", 1, "there is no archive nothing.log"),
        ("archive ls --archive nothing.db", 1, "there is no file"),
        ("archive import fruit.csv", 1, "no column 'value'"),
        ("archive export out.txt --archive nothing.db", 1, "there is no file"),
        ("train --method mbo", 2, "choose one of auto"),
        ("train nothing.db", 1, "there is no file"),
        ("spaces forest", 2, "Did you mean 'random-forest'?"),
        ("nothing", 2, "No such command"),
    ],
)
def test_mistakes_get_a_sentence_and_an_exit_code(rankwise, folder, words, code, message):
    (folder / "empty.csv").write_text("")
    (folder / "garbage.csv").write_bytes(bytes(range(256)) * 9)
    (folder / "one.csv").write_text("size,good\n1,yes\n")
    (folder / "twice.csv").write_text("size,size,good\n" + "1,2,yes\n" * 20)
    data().assign(good="yes").to_csv("single.csv", index=False)
    data()[["good"]].assign(a=np.nan, b=1).to_csv("hollow.csv", index=False)
    found = rankwise(*words.split())
    assert found.code == code
    assert message in " ".join(re.sub("[│╭╮╰╯─]", " ", found.err).split())
    assert "Traceback" not in found.err and found.out == "" and "secret" not in found.err
    assert not (folder / "rankwise.db").exists()  # nothing was begun


def test_a_changed_file_or_option_is_refused_for_the_same_study(rankwise, folder):
    words = ("tune", "fruit.csv", "--target", "good", *QUICK)
    assert rankwise(*words, "--name", "one").code == 0
    changed = rankwise(*words, "--name", "one", "--metric", "accuracy")
    assert changed.code == 1 and "begun with --metric unset, not accuracy" in changed.err
    data(61).to_csv("fruit.csv", index=False)
    for again in (("resume", "one"), (*words, "--name", "one")):
        found = rankwise(*again)
        assert found.code == 1 and "has changed since study 'one' was begun" in found.err
    assert rankwise(*words, "--name", "two").code == 0
    (folder / "fruit.csv").rename(folder / "moved.csv")
    assert "there is no file" in rankwise("resume", "two").err
    assert rankwise("resume", "two", "--data", "moved.csv").code == 0
    assert len(trials("sqlite:///rankwise.db", "one")) == 3


def test_a_database_that_cannot_be_written_is_left_as_it_is(rankwise, folder):
    words = ("tune", "fruit.csv", "--target", "good", *QUICK)
    assert rankwise(*words).code == 0
    before = (folder / "rankwise.db").read_bytes()
    readonly = "sqlite:///file:rankwise.db?mode=ro&uri=true"
    found = rankwise(*words, "--seed", "1", "--archive", readonly)
    assert found.code == 1 and "readonly" in found.err and found.err.count("\n") == 1
    assert (folder / "rankwise.db").read_bytes() == before
    (folder / "rankwise.db.rankwise").write_text("a file where the folder should be")
    kept = rankwise("train")
    assert kept.code == 1 and "cannot be written to rankwise.db.rankwise" in kept.err


def test_a_method_may_have_options(rankwise):
    words = ("tune", "fruit.csv", "--target", "good", *QUICK)
    assert rankwise(*words).code == 0
    found = rankwise(*words, "--seed", "1", "--method", "rgpe:guard=true", "--json")
    assert found.code == 0 and len(json.loads(found.out)["past"]) == 1
    wrong = rankwise(*words, "--seed", "2", "--method", "rgpe:guard=perhaps")
    assert wrong.code == 2 and "guard is True or False, not 'perhaps'" in wrong.err
    alone = rankwise(*words, "--seed", "3", "--method", "forest", "--json")
    assert json.loads(alone.out)["past"] == []  # it learnt from none
    assert rankwise("train", "--method", "rgpe:rows=50").code == 0


def test_the_class_that_a_one_sided_metric_is_about_is_said(rankwise):
    words = ("tune", "fruit.csv", "--target", "good", *QUICK, "--metric", "f1", "--json")
    assert "f1 is computed for class 'yes'." in json.loads(rankwise(*words).out)["notes"]


def test_studies_of_others_are_not_resumed(rankwise):
    study = optuna.create_study(storage="sqlite:///rankwise.db", study_name="theirs")
    study.set_user_attr("by", "hand")
    assert "not begun by rankwise tune" in rankwise("resume", "theirs").err
    words = ("tune", "fruit.csv", "--target", "good", *QUICK, "--name", "theirs")
    assert "not begun by rankwise tune" in rankwise(*words).err


def test_a_mistake_of_ours_shows_its_place_only_when_asked(rankwise, monkeypatch):
    from rankwise import methods

    monkeypatch.setattr(methods, "available", lambda: 1 / 0)
    found = rankwise("methods")
    assert found.code == 1 and "unexpected ZeroDivisionError" in found.err
    assert "Traceback" not in found.err and "--debug" in found.err
    monkeypatch.setattr(sys, "argv", ["rankwise", "--debug", "methods"])
    with pytest.raises(ZeroDivisionError):
        main()


# ---------------------------------------------------------------------- hostile tables


class Page(html.parser.HTMLParser):
    """The elements of a page, and what is executable in it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.programs: list[str] = []
        self._program = False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        self._program = tag == "script" and dict(attrs).get("type") != "application/json"
        if self._program:
            self.programs.append("")

    def handle_data(self, data):
        if self._program:
            self.programs[-1] += data

    def handle_endtag(self, tag):
        self._program = self._program and tag != "script"


EVIL = (
    "</script><script>alert('pwned')</script>",
    "<img src=x onerror=\"alert('pwned')\">",
    "=cmd|' /C calc'!A0",
    "[red]\x1b[31m{{7*7}}${7*7}",
)


def test_a_hostile_table_cannot_put_anything_into_the_report(rankwise, folder):
    script, image, formula, escape = EVIL
    frame = data().set_axis([script, image, formula, escape], axis=1)
    frame[escape] = frame[escape].map({"yes": script, "no": formula})
    frame[formula] = frame[formula].map({"red": image, "green": script, "blue": formula})
    frame.to_csv("evil.csv", index=False)
    words = (*QUICK, "--report", "evil.html", "--name", script + image)
    found = rankwise("tune", "evil.csv", "--target", escape, *words)
    assert found.code == 0, found.err
    assert "\x1b[31m" not in found.err + found.out
    words = (*QUICK, "--report", "good.html", "--archive", "good.db")
    rankwise("tune", "fruit.csv", "--target", "good", *words)
    evil = Page(Path("evil.html").read_text(encoding="utf-8"))
    good = Page(Path("good.html").read_text(encoding="utf-8"))
    assert evil.tags.count("script") == good.tags.count("script")
    assert evil.tags.count("img") == good.tags.count("img")
    handlers = [value for name, value in evil.attributes if name.startswith("on")]
    assert not any("pwned" in value for value in handlers)
    assert not any("alert('pwned')" in program for program in evil.programs)
    shown = rankwise("archive", "show", script + image)
    assert shown.code == 0 and "\x1b" not in shown.out


# ---------------------------------------------------------------------- the built-in past


def test_builtin_lists_learners_and_data_sets(rankwise):
    found = rankwise("builtin")
    assert found.code == 0 and "2026-11" in found.out and "Apache-2.0" in found.out
    facts = json.loads(rankwise("builtin", "svc", "--json").out)
    assert {r["kind"] for r in facts["records"]} == {"classification", "regression"}
    assert facts["records"][0]["trials"] > 5000
    wrong = rankwise("builtin", "svm")
    assert wrong.code == 2 and "'svc'" in wrong.err
