"""`rankwise tune` on tables that are not as tidy as they could be."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from support.shell import commands, enter, executed

QUICK = ("--estimator", "decision-tree", "--trials", "2", "--cv", "2")


@pytest.fixture
def rankwise(tmp_path, monkeypatch, capsys):
    enter(tmp_path, monkeypatch)
    return commands(monkeypatch, capsys)


def test_a_file_without_names_of_columns(rankwise):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 3)).round(3)
    pd.DataFrame(x).assign(y=np.where(x[:, 1] > 0, "b", "a")).to_csv(
        "wine.data", index=False, header=False
    )
    found = rankwise("tune", "wine.data", "--target", "3", *QUICK, "--json")
    facts = json.loads(found.out)
    assert "named by their index, 0 to 3" in facts["notes"][0]
    assert facts["held_out"]["rows"] == 12 and facts["best"]["score"] > 0.9
    executed(facts["code"])
    again = rankwise("tune", "wine.data", "--target", "3", *QUICK, "--no-header", "--json")
    other = json.loads(again.out)
    assert other["best"]["score"] == facts["best"]["score"] and "index" not in other["notes"][0]
    executed(other["code"])
    missing = rankwise("tune", "wine.data", "--target", "9", *QUICK)
    assert missing.code == 1 and "columns are named by their index" in missing.err
    first = pd.read_csv("wine.data").columns[0]
    named = rankwise("tune", "wine.data", "--target", first, *QUICK, "--header")
    assert named.code == 0, named.err


def test_numbers_of_rows_are_left_out(rankwise):
    rng = np.random.default_rng(0)
    x = rng.normal(size=60)
    frame = pd.DataFrame({"PassengerId": np.arange(60) + 100, "x": x, "y": x > 0})
    frame.to_csv("ship.csv", index=False)
    facts = json.loads(rankwise("tune", "ship.csv", "--target", "y", *QUICK, "--json").out)
    assert any("'PassengerId'" in note for note in facts["notes"])
    session = executed(facts["code"])
    assert list(session["X"]) == ["x"]
