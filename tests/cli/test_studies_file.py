"""Export and import of studies lose nothing."""

from __future__ import annotations

import json
from datetime import datetime

import optuna
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState
from support.shell import QUICK, commands, data, enter

from rankwise.cli.studies_file import Copy, read_studies_file, studies_path, write_studies_file
from rankwise.errors import ArchiveError

DIRECTIONS = [StudyDirection.MINIMIZE, StudyDirection.MAXIMIZE]
plain = st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3)
finite = st.floats(-1e6, 1e6)


@st.composite
def distributions(draw):
    kind = draw(st.sampled_from(["choices", "float", "log", "int"]))
    if kind == "choices":
        choices = draw(st.lists(plain, min_size=1, max_size=4, unique_by=repr))
        return CategoricalDistribution(choices)
    if kind == "float":
        low = draw(finite)
        return FloatDistribution(low, low + draw(st.floats(0.1, 100)))
    if kind == "log":
        return FloatDistribution(draw(st.floats(1e-9, 1)), draw(st.floats(2, 1e5)), log=True)
    return IntDistribution(draw(st.integers(-9, 0)), draw(st.integers(1, 9)))


def drawn(draw, distribution):
    if isinstance(distribution, CategoricalDistribution):
        return draw(st.sampled_from(distribution.choices))
    share = draw(st.floats(0, 1))
    value = distribution.low + share * (distribution.high - distribution.low)
    if isinstance(distribution, IntDistribution):
        return int(value)
    return min(value, distribution.high)


@st.composite
def trials(draw, number, space):
    active = [name for name in space if draw(st.booleans())]
    states = [TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL]
    state = draw(st.sampled_from(states))
    moment = datetime(2024, 1, 1, 0, 0, 0, draw(st.integers(0, 999_999)))
    return FrozenTrial(
        number=number,
        trial_id=-1,
        state=state,
        value=draw(finite) if state == TrialState.COMPLETE else None,
        datetime_start=moment,
        datetime_complete=moment,
        params={name: drawn(draw, space[name]) for name in active},
        distributions={name: space[name] for name in active},
        user_attrs=draw(st.dictionaries(st.text(max_size=3), plain, max_size=2)),
        system_attrs={},
        intermediate_values=draw(st.dictionaries(st.integers(0, 9), finite, max_size=2)),
    )


@st.composite
def studies(draw):
    space = draw(st.dictionaries(st.text(min_size=1, max_size=3), distributions(), max_size=3))
    return Copy(
        draw(st.text(min_size=1, max_size=5)),
        tuple(draw(st.lists(st.sampled_from(DIRECTIONS), min_size=1, max_size=3))),
        draw(st.dictionaries(st.text(max_size=3), plain, max_size=2)),
        [draw(trials(k, space)) for k in range(draw(st.integers(0, 3)))],
        draw(st.sampled_from([(), ("error", "seconds")])),
    )


@settings(max_examples=60, deadline=None)
@given(st.lists(studies(), max_size=3))
def test_a_round_trip_is_exact(tmp_path_factory, written):
    table = tmp_path_factory.mktemp("studies") / "trials.csv"
    table.write_text("study,value\n")
    write_studies_file(written, table)
    assert read_studies_file(table) == written
    for old, new in zip(written, read_studies_file(table), strict=True):
        for before, after in zip(old.trials, new.trials, strict=True):
            assert {k: repr(v) for k, v in before.params.items()} == {
                k: repr(v) for k, v in after.params.items()
            }


def test_a_table_that_was_changed_speaks_for_itself(tmp_path):
    table = tmp_path / "trials.csv"
    table.write_text("study,value\n")
    assert read_studies_file(table) is None
    write_studies_file([], table)
    table.write_text("study,value\na,1\n")
    assert read_studies_file(table) is None


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"{}", b'{"version": 9}', b"\xff", b"[" * 100_000, b'{"version": 1, "table": 3'],
)
def test_a_damaged_file_gets_a_sentence(tmp_path, content):
    table = tmp_path / "trials.csv"
    table.write_text("study,value\n")
    studies_path(table).write_bytes(content)
    with pytest.raises(ArchiveError, match="remove"):
        read_studies_file(table)


@pytest.fixture
def rankwise(tmp_path, monkeypatch, capsys):
    enter(tmp_path, monkeypatch)
    return commands(monkeypatch, capsys)


@pytest.mark.parametrize("table", ["trials.csv", "trials.jsonl"])
def test_exported_studies_come_back_as_they_were(rankwise, table):
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    for direction in ("minimize", "maximize"):
        study = optuna.create_study(
            storage="sqlite:///a.db", study_name=direction, direction=direction
        )
        study.set_user_attr("rows", 150)

        def objective(trial):
            depth = trial.suggest_categorical("depth", [None, 3, "3"])
            return trial.suggest_float("x", 1e-3, 1e3, log=True) + (depth is None)

        study.sampler = optuna.samplers.RandomSampler(seed=0)
        study.optimize(objective, n_trials=4)
    out = rankwise("archive", "export", table, "--archive", "a.db")
    assert out.code == 0 and "8 trials of 2 studies" in out.out and ".studies.json" in out.out
    assert rankwise("archive", "import", table, "--archive", "b.db").code == 0
    for name in ("minimize", "maximize"):
        old, new = (optuna.load_study(study_name=name, storage=f"sqlite:///{p}.db") for p in "ab")
        assert old.direction == new.direction and old.user_attrs == new.user_attrs
        for before, after in zip(old.trials, new.trials, strict=True):
            assert before.params == after.params and before.values == after.values
            assert before.distributions == after.distributions
            assert before.datetime_complete == after.datetime_complete


def test_tune_learns_from_studies_that_were_exported_and_imported(rankwise):
    words = ("--target", "good", *QUICK)
    rankwise("tune", "fruit.csv", *words, "--name", "one")
    assert rankwise("archive", "export", "t.csv").code == 0
    assert rankwise("archive", "import", "t.csv", "--archive", "new.db").code == 0
    data(70).to_csv("other.csv", index=False)
    found = rankwise("tune", "other.csv", *words, "--archive", "new.db", "--json")
    assert json.loads(found.out)["past"] == ["one"]


def test_tune_says_that_studies_of_other_spaces_are_not_used(rankwise):
    study = optuna.create_study(storage="sqlite:///rankwise.db", study_name="mine")
    study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=2)
    found = rankwise("tune", "fruit.csv", "--target", "good", *QUICK)
    assert "1 other study, none of this search space" in found.err


def test_the_twin_of_a_comparison_is_no_past_study(rankwise):
    for n in (60, 64, 68):
        data(n).to_csv(f"fruit{n}.csv", index=False)
    words = ("--target", "good", *QUICK)
    rankwise("tune", "fruit60.csv", *words, "--name", "one")
    second = rankwise("tune", "fruit64.csv", *words, "--name", "two", "--compare", "--json")
    assert json.loads(second.out)["without_history"]["study"] == "two-without-history"
    third = json.loads(rankwise("tune", "fruit68.csv", *words, "--name", "three", "--json").out)
    assert sorted(third["past"]) == ["one", "two"]
    shown = rankwise("archive", "ls")
    assert "not used: two-without-history: it is the comparison" in shown.err


@pytest.mark.parametrize("named", [True, False])
def test_studies_with_several_objectives_come_back_as_they_were(rankwise, named):
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(
        storage="sqlite:///a.db", study_name="both", directions=["minimize", "maximize"]
    )
    if named:
        study.set_metric_names(["seconds", "accuracy"])
    study.sampler = optuna.samplers.RandomSampler(seed=0)

    def objective(trial):
        x = trial.suggest_float("x", 0, 1)
        if trial.number == 2:
            raise ValueError
        return x, x

    study.optimize(objective, n_trials=5, catch=ValueError)
    one = optuna.create_study(storage="sqlite:///a.db", study_name="one")
    one.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=2)
    out = rankwise("archive", "export", "trials.csv", "--archive", "a.db")
    assert out.code == 0 and "7 trials of 2 studies" in out.out
    table = pd.read_csv("trials.csv")
    both = table[table["study"] == "both"]
    assert list(both["value"].dropna()) == [t.values[0] for t in study.trials if t.values]
    assert list(both["value_2"].dropna()) == [t.values[1] for t in study.trials if t.values]
    assert table[table["study"] == "one"]["value_2"].isna().all()
    assert rankwise("archive", "import", "trials.csv", "--archive", "b.db").code == 0
    assert rankwise("archive", "import", "a.db", "--archive", "c.db").code == 0
    for archive in "bc":
        again = optuna.load_study(study_name="both", storage=f"sqlite:///{archive}.db")
        assert again.directions == study.directions and again.metric_names == study.metric_names
        assert [t.values for t in again.trials] == [t.values for t in study.trials]
        assert [t.params for t in again.trials] == [t.params for t in study.trials]
        assert len(again.best_trials) == 4


def test_a_file_of_an_earlier_version_is_read(tmp_path):
    table = tmp_path / "trials.csv"
    table.write_text("study,value\n")
    write_studies_file([Copy("a", (StudyDirection.MAXIMIZE,), {}, [])], table)
    document = json.loads(studies_path(table).read_text())
    assert document["version"] == 1
    for key in ("directions", "metrics"):
        del document["studies"][0][key]
    studies_path(table).write_text(json.dumps(document))
    assert read_studies_file(table)[0].directions == (StudyDirection.MAXIMIZE,)
