"""What `describe` says of curves, and of studies whose objectives do not fit."""

from __future__ import annotations

import math

import optuna
import pytest
from optuna.distributions import FloatDistribution
from optuna.trial import TrialState, create_trial

from rankwise import RankwisePruner
from rankwise.archive import open_archive


def add(storage, name, curves, *, states=None, scale=1):
    """A study with these curves: values, or None for a gap, at steps 1, 2, ... times a scale."""
    study = optuna.create_study(storage=storage, study_name=name)
    for k, curve in enumerate(curves):
        state = (states or {}).get(k, TrialState.COMPLETE)
        reported = {scale * (s + 1): v for s, v in enumerate(curve) if v is not None}
        study.add_trial(
            create_trial(
                state=state,
                value=float(k) if state == TrialState.COMPLETE else None,
                params={"x": k / 10},
                distributions={"x": FloatDistribution(0, 1)},
                intermediate_values=reported,
            )
        )


@pytest.fixture
def storage():
    return optuna.storages.InMemoryStorage()


def test_gaps_numbers_that_are_none_and_steps_of_other_scales(storage):
    full = [[3.0, 2.0, 1.0, k] for k in range(6)]
    broken = [*full[:4], [3.0, None, 1.0, 4.0], [3.0, math.nan, 1.0, 5.0]]
    add(storage, "epochs", broken)
    add(storage, "batches", full, scale=100)
    add(storage, "few", full[:4])
    add(storage, "pruned", [[1.0, 2.0]] * 6, states=dict.fromkeys(range(1, 6), TrialState.PRUNED))
    add(storage, "none", [[]] * 6)
    found = open_archive(storage).describe()
    text = str(found)
    assert "6 with a curve, up to step 4 (1 with gaps, 1 with values that are not num" in text
    assert "6 with a curve, up to step 400" in text
    assert "curves end at steps 2 to 400: steps are compared as fractions" in text
    assert "curves of 2 studies cannot teach a pruner" in text
    assert found.to_dict()["curves_left_out"] == {
        "few": "it has 4 full learning curves; at least 5 are needed",
        "pruned": "it has 1 full learning curve; at least 5 are needed",
    }
    facts = {study.name: study for study in found.studies}
    assert facts["none"].curves == 0 and facts["none"].curve_facts == ""
    pruner = RankwisePruner(storage)
    study = optuna.create_study(study_name="new", pruner=pruner)
    trial = study.ask()
    trial.report(1.0, 1)
    trial.should_prune()
    assert pruner.past_ is None or set(pruner.past_) == {"epochs", "batches"}


def test_curves_of_one_scale_need_no_note(storage):
    for name in "ab":
        add(storage, name, [[3.0, 2.0, k] for k in range(6)])
    found = open_archive(storage).describe()
    assert not any("fractions" in note for note in found.notes) and not found.curves_left_out


def test_objectives_that_do_not_fit_are_left_out_with_the_reason(storage):
    def objectives(name, directions, names=None):
        study = optuna.create_study(storage=storage, study_name=name, directions=directions)
        if names:
            study.set_metric_names(names)
        study.optimize(lambda t: (t.suggest_float("x", 0, 1),) * len(directions), n_trials=3)

    objectives("one", ["minimize"])
    objectives("two", ["minimize"] * 2, ["error", "seconds"])
    objectives("turned", ["maximize", "minimize"], ["error", "seconds"])
    objectives("three", ["minimize"] * 3)
    objectives("five", ["minimize"] * 5)
    alone = str(open_archive(storage).describe())
    assert "two: it has 2 objectives (minimize error, minimize seconds); one is wanted" in alone
    assert "five: it has 5 objectives; 4 are supported" in alone
    wanted = {"error": "minimize", "seconds": "minimize"}
    both = open_archive(storage, objectives=wanted).describe()
    assert [study.name for study in both.studies] == ["two"]
    assert "directions disagree" in both.left_out["turned"]
    assert "without study.set_metric_names" in both.left_out["three"]
    assert "without study.set_metric_names" in both.left_out["one"]
