"""Past studies under other names, with known values."""

from __future__ import annotations

import json

import pytest
from optuna.distributions import (
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from archive.past import past
from rankwise.archive import Archive, open_archive
from rankwise.archive.names import named_values, under_names
from rankwise.errors import OptionError

RATE = FloatDistribution(1e-3, 1.0, log=True)


def studies():
    return [
        past("old", {"eta": RATE}, [{"eta": 0.1}, {"eta": 0.2}]),
        past("new", {"learning_rate": RATE}, [{"learning_rate": 0.3}]),
        past("both", {"eta": RATE, "learning_rate": RATE}, [{"eta": 0.1, "learning_rate": 0.4}]),
    ]


def test_parameters_get_the_new_name_unless_a_study_has_it():
    archive = open_archive(Archive(studies()), rename={"eta": "learning_rate"})
    old, new, both = archive.studies
    assert [t["learning_rate"] for t in old.params] == [0.1, 0.2] and "eta" not in old.params[0]
    assert new.params == [{"learning_rate": 0.3}]
    assert both.params == [{"eta": 0.1, "learning_rate": 0.4}]
    assert archive.notes == ("renamed: eta to learning_rate (in 1 study)",)


@pytest.mark.parametrize(
    ("value", "distribution"),
    [
        (5, IntDistribution(5, 5)),
        (0.5, FloatDistribution(0.5, 0.5)),
        ("adam", CategoricalDistribution(["adam"])),
        (True, CategoricalDistribution([True])),
    ],
)
def test_known_values_are_added_where_a_study_has_none(value, distribution):
    study = under_names(studies()[0], {}, {"more": value, "eta": 9.0})
    assert study.params == [{"eta": 0.1, "more": value}, {"eta": 0.2, "more": value}]
    assert study.distributions["more"] == distribution


def test_known_values_place_studies_in_the_range_of_the_others():
    varied = past("b", {"epochs": IntDistribution(1, 9)}, [{"epochs": 1}, {"epochs": 9}])
    plain = past("a", {"x": RATE}, [{"x": 0.1}])
    archive = open_archive(Archive([varied, plain]), known={"epochs": 5})
    assert archive.space.distributions["epochs"] == IntDistribution(1, 9)
    assert archive.space.encode(archive.studies[1].params)[0].tolist().count(0.5) >= 1


def test_names_come_from_a_file_too(tmp_path):
    path = tmp_path / "names.json"
    path.write_text(json.dumps({"eta": "learning_rate"}))
    archive = open_archive(Archive(studies()[:1]), rename=path)
    assert list(archive.space.distributions) == ["learning_rate"]


@pytest.mark.parametrize("wrong", ["nowhere.json", [1], {1: "a"}, {"a": 1}])
def test_wrong_names_are_refused(wrong):
    with pytest.raises(OptionError, match="rename"):
        named_values("rename", wrong)


def test_likely_renames_are_described():
    description = Archive(studies()[:2]).describe()
    assert description.renames == {"learning_rate": "eta"}
    assert "rename={'learning_rate': 'eta'}" in str(description)
    wanted = Archive(studies()[:1], search_space={"learning_rate": RATE}).describe()
    assert wanted.renames == {"eta": "learning_rate"}
    assert not Archive(studies()).describe().renames  # one study has both
    far = past("far", {"lr": FloatDistribution(5, 9)}, [{"lr": 6.0}])
    assert not Archive([studies()[0], far]).describe().renames
