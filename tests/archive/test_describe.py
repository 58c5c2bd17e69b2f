"""What people are told about an archive."""

from __future__ import annotations

import json
import math

import numpy as np
import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from archive.past import fill, past
from rankwise.archive import Archive, open_archive
from rankwise.archive.agreement import agreement, rank_correlation
from rankwise.history.task import FAILED, OK, Task

X = FloatDistribution(0.0, 1.0)


def grid(name, slope, n=20, **facts):
    x = np.linspace(0, 1, n)
    return past(name, {"x": X}, [{"x": v} for v in x], slope * x, **facts)


def test_studies_that_agree_and_one_that_does_not():
    archive = Archive([grid("a", 1.0), grid("b", 5.0), grid("c", 0.1), grid("odd", -1.0)])
    found = archive.describe().agreement
    assert found.least == "odd" and found.by_study["odd"] == pytest.approx(-1.0)
    assert found.mean == pytest.approx(0.0) and found.compared == 4
    assert found.by_study["a"] == pytest.approx(1 / 3)


def test_directions_are_taken_into_account():
    archive = Archive([grid("a", 1.0), grid("b", -1.0, direction="maximize")])
    assert archive.describe().agreement.mean == pytest.approx(1.0)


@pytest.mark.parametrize(
    "studies", [[], [grid("a", 1.0)], [grid("a", 1.0, 3), grid("b", 1.0, 3)], [grid("a", 0.0)] * 2]
)
def test_too_few_trials_are_said(studies):
    found = Archive(studies).describe().agreement
    assert math.isnan(found.mean) and "n/a" in str(found) and found.least == ""


def test_many_studies_are_drawn_from_with_a_seed():
    rng = np.random.default_rng(0)
    tasks = [Task.of(rng.random((9, 2)), rng.random(9), name=str(k)) for k in range(50)]
    assert agreement(tasks).compared == 30 and agreement(tasks) == agreement(tasks)
    assert agreement(tasks, seed=1) != agreement(tasks)


def test_rank_correlation():
    a = np.array([1.0, 2.0, 3.0])
    assert rank_correlation(a, np.exp(a)) == pytest.approx(1.0)
    assert rank_correlation(a, -a) == pytest.approx(-1.0)
    assert math.isnan(rank_correlation(a, np.zeros(3)))


def test_everything_is_in_the_text_and_in_the_data():
    storage = optuna.storages.InMemoryStorage()
    fill(storage, "net-1", 12)
    fill(storage, "net-2", 12, "maximize", seed=1)
    optuna.create_study(storage=storage, study_name="begun")
    description = open_archive(storage).describe()
    text = str(description)
    for part in (
        "2 studies, 24 trials: 24 with a value (0 of them pruned), 0 without",
        "net-2: 12 trials, maximize",
        "begun: no finished trial has a value",
        "lr: float in [0.0001, 1], log scale",
        "momentum: float in [0, 0.9], steps of 0.1, if optimizer is 'sgd'",
        "layers: integer in [1, 5]",
        "optimizer: one of ['sgd', 'adam']",
        "agreement of the rankings: mean rank correlation",
    ):
        assert part in text
    data = json.loads(json.dumps(description.to_dict(), allow_nan=False))
    assert data["studies"][0]["trials"] == 12 and data["left_out"] == description.left_out
    assert {p["name"]: p["studies"] for p in data["parameters"]}["momentum"] == 2


def test_parameters_that_cannot_be_used_are_said():
    space = {"x": X, "seed": IntDistribution(0, 2**62), "epochs": IntDistribution(5, 5)}
    params = [{"x": v, "seed": 2**61, "epochs": 5} for v in np.linspace(0, 1, 5)]
    odd = [past(name, space, params, np.arange(5.0)) for name in ("a", "b")]
    text = str(Archive([*odd, grid("c", 1.0)]).describe())
    assert "parameter 'seed' is not used: its integers are too large" in text
    assert "(in 2 studies)" in text and "epochs: always 5" in text and "seed: " not in text


def test_counts_and_rare_parameters():
    mixed = past(
        "mixed",
        {"x": X, "c": CategoricalDistribution(["a"])},
        [{"x": 0.1, "c": "a"}] * 3,
        [1.0, math.nan, 0.5],
        status=[OK, FAILED, OK],
    )
    description = Archive([mixed, grid("a", 1.0)]).describe()
    facts = description.studies[0]
    assert (facts.trials, facts.ok, facts.failed, facts.best) == (3, 2, 1, 0.5)
    assert "c: one of ['a'], not in every trial (in 1 study)" in str(description)
    assert json.dumps(description.to_dict(), allow_nan=False)


def test_a_long_list_is_cut():
    text = str(Archive([grid(f"s{k}", 1.0) for k in range(25)]).describe())
    assert "... and 5 more" in text and "s19:" in text and "s20:" not in text
