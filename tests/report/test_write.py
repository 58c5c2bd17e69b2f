"""The report of a study: what it says of any study."""

from __future__ import annotations

import base64
import hashlib
import math
import re
from html import unescape

import numpy as np
import optuna
import pytest
from support.reports import Reader, add, check, full_report, made, odd_studies, page_of, params

from rankwise import make_space, minimize
from rankwise.builtin.records import dataset_facts
from rankwise.builtin.tasks import study_name
from rankwise.errors import OptionError, StorageError
from rankwise.report import write_report
from rankwise.report.calibration import coverage, coverage_in_words
from rankwise.report.html import duration
from rankwise.report.importance import importance
from rankwise.report.parallel_coordinates import parallel_figure
from rankwise.report.sections import compared
from rankwise.report.study_record import Row, read

# ---------------------------------------------------------------------- what it says


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    return full_report(tmp_path_factory.mktemp("report"))


def test_the_report_has_all_sections_in_one_file(full):
    study, path = full
    reader = check(path.read_text(encoding="utf-8"))
    assert path.stat().st_size < 10e6 and [p.name for p in path.parent.iterdir()] == [path.name]
    assert reader.tags.count("h1") == 1 and reader.tags.count("h2") == 9
    assert len(reader.figures) == 7
    assert (
        f"{study.best_value:.5g} trial {study.best_trial.number}, larger is better" in reader.text
    )
    for said in ("26 25 complete, 1 failed", "Transfer trust", "SVC() · scored by accuracy"):
        assert said in reader.text
    assert "rankwise tune 'my data.csv'" in reader.text
    assert "trial state value predicted f1 kernel C" in reader.text
    assert "ValueError: x<0" in reader.text


def test_what_is_known_of_past_studies_is_told(full):
    text = check(full[1].read_text(encoding="utf-8")).text
    assert "The transfer trust went from 60 % to 89 %" in text
    rows = re.search(
        r"past study mean weight first trial last trial rows kind this study (.*?) iris", text
    )
    assert rows[1] == "– – – 450 – wine 40 % 40 % 40 % 178 a"


def test_facts_of_built_in_studies_are_told(tmp_path):
    dataset, known = next(iter(dataset_facts()["regression"].items()))
    study = optuna.create_study()
    study.set_user_attr("rankwise:context", {"rows": 354.0, "log_rows": math.log(354)})
    sources = {"rankwise:sources": {study_name(dataset): 0.5, "elsewhere": 0.1, "": 0.1}}
    for value in (1.0, 2.0):
        add(study, {}, value, user_attrs=sources)
    text = check(page_of(study, tmp_path)).text
    facts = known["context"]
    assert "past study mean weight first trial last trial rows columns" in text
    assert f"50 % 50 % 50 % {facts['rows']:.5g} {facts['columns']:.5g}" in text
    assert "log_rows" not in text


def test_only_the_scripts_of_the_page_may_run(full):
    page = full[1].read_text(encoding="utf-8")
    policy = re.search(r'Content-Security-Policy" content="(.*?)"', page)[1]
    allowed = re.findall(r"'sha256-(.*?)'", policy)
    digests = [hashlib.sha256(script.encode()).digest() for script in Reader(page).scripts]
    assert [base64.b64encode(digest).decode() for digest in digests] == allowed
    assert (
        "default-src 'none'" in policy and "'unsafe-inline'" not in policy.split("script-src")[1]
    )


def test_plotly_is_packed_so_that_a_page_is_small(full):
    assert full[1].stat().st_size < 2.5e6


@pytest.mark.parametrize("direction", ["minimize", "maximize"])
def test_the_best_value_follows_the_direction(tmp_path, direction):
    study = made(direction=direction, attributes=False)
    text = check(page_of(study, tmp_path, title="Tuning")).text
    assert f"Best value {study.best_value:.5g} trial {study.best_trial.number}," in text
    assert text.startswith("Tuning")
    assert "rankwise tune --compare" in text
    assert "does not record which past studies" in text
    assert "does not record predictions" in text


def test_a_result_of_minimize_is_a_study_in_memory(tmp_path):
    space = make_space({"k": ["a", "b"], "g": (0.0, 1.0)}, when={"g": {"k": "a"}})
    run = minimize(lambda c: c.get("g", 0.5), space, trials=12, method="random", seed=3)
    text = check(page_of(run, tmp_path)).text
    assert "storage in memory only" in text and "seed 3" in text and "method random" in text
    assert f"'g': {run.best_configuration['g']!r}" in text


def test_a_stored_study_can_be_loaded_as_the_report_says(tmp_path):
    journal = optuna.storages.journal.JournalFileBackend(str(tmp_path / "it's.log"))
    for storage in (f"sqlite:///{tmp_path}/a.db", optuna.storages.JournalStorage(journal)):
        study = made(2, name="it's", storage=storage)
        page = page_of(study, tmp_path)
        [said] = re.findall(r"<code>(import optuna.*?)</code>", page, re.S)
        found: dict = {}
        exec(unescape(said).replace("write_report(study", "(study"), found)
        assert found["study"].best_trial == study.best_trial
        assert found["best"] == study.best_params


@pytest.mark.parametrize("name", odd_studies())
def test_any_study_has_a_report(tmp_path, name):
    study = odd_studies()[name]
    reader = check(page_of(study, tmp_path))
    assert reader.tags.count("h2") >= 8
    told = {"none": "none has a value", "failed": "3 failed", "choices": "15 complete"}
    assert told.get(name, "") in reader.text
    if name == "states":
        assert "12 complete, 1 invalid, 2 pruned, 1 running, 1 waiting" in reader.text
        assert "Best value 0 trial 0" in reader.text
    if name == "one":
        assert (
            "Importance needs at least 10 trials with a value; this study has 1 trial."
            in reader.text
        )


def test_what_breaks_a_constraint_is_not_the_best():
    study = made(5, attributes=False)
    attributes = {"constraints": [1.0]}
    add(study, params(np.random.default_rng(0)), 99.0, system_attrs=attributes)
    record = read(study)
    assert record.rows[-1].state == "infeasible" and record.best.value < 1


def test_refused_studies_are_named_with_the_reason(tmp_path):
    several = optuna.create_study(directions=["maximize", "minimize"], study_name="both")
    with pytest.raises(OptionError, match="a baseline needs studies with one objective"):
        write_report(made(2), tmp_path / "r.html", baseline=several)
    with pytest.raises(OptionError, match="not a dict"):
        write_report({}, tmp_path / "r.html")
    with pytest.raises(OptionError, match=r"to maximize and the baseline .* to minimize"):
        write_report(made(2), tmp_path / "r.html", baseline=optuna.create_study())
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot be written to"):
        write_report(made(2), tmp_path / "file" / "r.html")
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_passwords_are_not_shown(tmp_path):
    study = made(3)
    address = "postgresql://me:secret@host/db"
    study.set_user_attr("rankwise:command line", f"rankwise tune --archive {address}")
    study.set_user_attr("rankwise:options", {"storage": address})
    add(study, {}, user_attrs={"rankwise:error": f"cannot reach {address}"})
    page = page_of(study, tmp_path)
    assert "secret" not in page and "://me:***@host" in page


def test_studies_are_compared_after_as_many_trials():
    def of(values):
        study = optuna.create_study(direction="maximize")
        for value in values:
            add(study, {}, value)
        return read(study)

    text = compared(of([0.1, 0.8, 0.9]), of([0.1, 0.2, 0.3, 0.8, 0.95]))
    assert text.startswith("After 3 trials each: 0.9 with past studies, 0.3 without.")
    assert "took 3 trials; with them a value as good took 2 trials." in text
    assert "Past studies did not help" in compared(of([0.1, 0.2]), of([0.1, 0.3]))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0123, "12 ms"), (59.0, "59.0 s"), (61, "1 min 1 s"), (7260, "2 h 1 min")],
)
def test_durations_in_words(seconds, text):
    assert duration(seconds).replace("\u00a0", " ") == text


# ---------------------------------------------------------------------- figures and numbers


def test_axes_are_logarithmic_and_show_what_is_not_used():
    study = optuna.create_study()
    add(study, {"kernel": "rbf", "C": 10.0, "gamma": 0.01}, 1.0)
    add(study, {"kernel": "linear", "C": 0.1}, 2.0)
    [trace] = parallel_figure(read(study), "").data
    axes = {axis["label"]: axis for axis in trace["dimensions"]}
    assert list(axes["C"]["values"]) == pytest.approx([-1, 1])  # the best is drawn last, on top
    assert axes["C"]["ticktext"][0] == "0.001" and axes["C"]["ticktext"][-1] == "1000"
    assert axes["gamma"]["ticktext"][0] == "not used"
    assert axes["gamma"]["values"][0] == axes["gamma"]["tickvals"][0] < -4
    assert axes["kernel"]["ticktext"] == ["rbf", "linear"]
    assert axes["<b>value</b>"]["range"] == [2.0, 1.0]  # better is up


@pytest.mark.parametrize(
    ("scale", "said"),
    [(1.0, "well calibrated"), (4.0, "overconfident"), (0.1, "underconfident")],
)
def test_calibration_is_judged(scale, said):
    z = np.random.default_rng(0).normal(size=200) * scale
    rows = [Row(0, "complete", float(v), {}, mean=0.0, std=1.0) for v in z]
    shares = coverage(rows)
    assert shares[0] == np.mean(np.abs(z) < 0.6745)
    assert said in coverage_in_words(shares, len(rows))


def test_a_few_trials_cannot_show_that_predictions_are_wrong():
    assert "well calibrated" in coverage_in_words(np.array([0.6, 0.6, 1.0]), 5)


def test_importance_finds_what_counts_conditional_or_not():
    rng = np.random.default_rng(0)
    study = optuna.create_study()
    for _ in range(60):
        chosen = params(rng)
        loss = 1.0 if "gamma" not in chosen else abs(math.log10(chosen["gamma"]) + 1) / 2
        add(study, chosen, loss)
    found = importance(read(study).complete_columns)
    shares = dict(zip(found.names, found.shares, strict=True))
    assert set(found.names[:2]) == {"gamma", "kernel"} and found.correlation > 0.6
    assert (
        shares["C"] < 0.1 and shares["degree"] < 0.1 and sum(shares.values()) == pytest.approx(1)
    )


def test_importance_of_noise_is_not_told(tmp_path):
    rng = np.random.default_rng(1)
    study = optuna.create_study()
    for _ in range(30):
        add(study, params(rng), float(rng.normal()))
    assert "does not predict the order" in check(page_of(study, tmp_path)).text
