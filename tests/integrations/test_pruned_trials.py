"""Pruned trials count the same for the search, the sampler and archives."""

from __future__ import annotations

import numpy as np
import optuna
import pytest
from optuna.trial import TrialState, create_trial

from rankwise import Encoder
from rankwise.archive import open_archive
from rankwise.archive.past_tasks import past_tasks
from rankwise.integrations.optuna.sub_space import Part, past_study
from rankwise.storage.study_log import StudyLog

SPACE = {"x": (0.0, 1.0), "y": (0.0, 1.0)}
COMPLETE, PRUNED = TrialState.COMPLETE, TrialState.PRUNED


def run_past(states, values, direction="minimize"):
    """A storage with a study whose trials have these states and values (the last reported)."""
    storage = optuna.storages.InMemoryStorage()
    log = StudyLog(Encoder(SPACE), storage=storage, name="past", direction=direction)
    for k, (state, value) in enumerate(zip(states, values, strict=True)):
        log.study.add_trial(
            create_trial(
                state=state,
                value=value if state == COMPLETE else None,
                params={"x": k / 10, "y": 0.5},
                distributions=log._distributions,
                intermediate_values={1: 100.0, 2: value} if state == PRUNED else None,
            )
        )
    return storage, log.study


def losses_by_door(storage, study):
    """The losses of the past study: read by an archive, the search, and the sampler."""
    [searched] = past_tasks(storage, Encoder(SPACE)).tasks
    [archived] = open_archive(storage).tasks.tasks
    finished = past_study(study, study.get_trials(deepcopy=False))
    part = Part.alone(finished, finished.distributions, "random")
    return [task.losses.tolist() for task in (archived, searched, part._history(finished))]


@pytest.mark.parametrize(
    ("states", "values", "direction", "expected"),
    [
        ([PRUNED, COMPLETE, COMPLETE, PRUNED], [0.1, 0.5, 0.4, 0.8], "minimize", [4, 5, 4, 8]),
        ([COMPLETE, PRUNED, PRUNED], [0.7, 0.9, 0.1], "maximize", [-7, -7, -1]),
        ([PRUNED, PRUNED], [0.1, 0.8], "minimize", [1, 8]),
    ],
)
def test_every_door_gives_the_same_past(states, values, direction, expected):
    for losses in losses_by_door(*run_past(states, values, direction)):
        np.testing.assert_allclose(losses, np.array(expected) / 10)


def test_a_pruned_trial_is_not_the_best_of_a_past_with_a_completed_one():
    storage, _ = run_past([PRUNED, COMPLETE, COMPLETE], [0.1, 0.5, 0.4])
    [study] = open_archive(storage).studies
    assert study.ranking == [2, 0, 1] and study.losses.tolist() == [0.4, 0.5, 0.4]
    [facts] = open_archive(storage).describe().studies
    assert facts.best == 0.4
    assert study.values.tolist() == [0.1, 0.5, 0.4]  # as they were reported
