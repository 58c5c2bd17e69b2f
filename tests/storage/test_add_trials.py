from __future__ import annotations

import math
from datetime import datetime

import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.storages import InMemoryStorage
from optuna.trial import FrozenTrial, TrialState, create_trial

from rankwise.storage.add_trials import add_trials

SPACE = {
    "x": FloatDistribution(1e-3, 1.0, log=True),
    "n": IntDistribution(1, 9, step=2),
    "c": CategoricalDistribution(["a", None, 2]),
}


def trials() -> list[FrozenTrial]:
    full = create_trial(
        params={"x": 0.1, "n": 3, "c": None},
        distributions=SPACE,
        value=math.inf,
        user_attrs={"note": {"k": [1, None]}},
        system_attrs={"fixed_params": {"x": 0.1}},
        intermediate_values={0: 1.5, 1: math.nan, 2: -math.inf},
    )
    full.datetime_start, full.datetime_complete = datetime(2026, 1, 2), datetime(2026, 1, 3)
    return [
        full,
        create_trial(params={"n": 9}, distributions={"n": SPACE["n"]}, state=TrialState.FAIL),
        create_trial(params={"c": 2}, distributions={"c": SPACE["c"]}, value=-2.5),
        create_trial(state=TrialState.PRUNED, intermediate_values={3: 0.25}),
        create_trial(state=TrialState.WAITING),
    ]


def content(study: optuna.Study) -> list[str]:
    """All fields of all trials; as text, because NaN differs from itself."""
    fields = vars(FrozenTrial(0, TrialState.FAIL, None, None, None, {}, {}, {}, {}, {}, 0))
    wanted = sorted(name for name in fields if not name.endswith("trial_id"))
    return [str([(name, getattr(trial, name)) for name in wanted]) for trial in study.trials]


@pytest.mark.parametrize("where", ["database", "memory"])
def test_the_trials_are_those_that_optuna_adds(tmp_path, where):
    url = f"sqlite:///{tmp_path}/studies.db" if where == "database" else InMemoryStorage()
    ours = optuna.create_study(storage=url, study_name="ours", direction="maximize")
    theirs = optuna.create_study(storage=url, study_name="theirs", direction="maximize")
    both = trials()
    add_trials(ours, both)
    theirs.add_trials(both)
    assert len(ours.trials) == 5
    assert content(ours) == content(theirs)
    ours.optimize(lambda trial: trial.suggest_float("x", 1e-3, 1.0, log=True), n_trials=2)
    assert [trial.number for trial in ours.trials] == [0, 1, 2, 3, 4, 5]  # the waiting one ran


def test_several_objectives(tmp_path):
    study = optuna.create_study(
        storage=f"sqlite:///{tmp_path}/studies.db", directions=["minimize", "maximize"]
    )
    add_trials(study, [create_trial(values=[1.0, 2.0])])
    assert study.trials[0].values == [1.0, 2.0]


def test_trials_that_contradict_the_study_are_refused_and_none_is_written(tmp_path):
    study = optuna.create_study(storage=f"sqlite:///{tmp_path}/studies.db")
    with pytest.raises(ValueError, match="2 values, its study 1"):
        add_trials(study, [create_trial(value=1.0), create_trial(values=[1.0, 2.0])])
    other = create_trial(params={"x": 1}, distributions={"x": IntDistribution(0, 3)}, value=0.0)
    with pytest.raises(ValueError, match="distribution"):
        add_trials(study, [trials()[0], other])
    assert study.trials == []


def test_a_trial_takes_one_statement(tmp_path):
    from sqlalchemy import event

    storage = optuna.storages.RDBStorage(f"sqlite:///{tmp_path}/studies.db")
    counts = []
    for n in (5, 50):
        study, seen = optuna.create_study(storage=storage), []

        def note(*arguments, seen=seen):
            seen.append(arguments[2])

        event.listen(storage.engine, "before_cursor_execute", note)
        add_trials(study, [trials()[0]] * n)
        event.remove(storage.engine, "before_cursor_execute", note)
        counts.append(len(seen))
    assert counts[1] - counts[0] <= 45
