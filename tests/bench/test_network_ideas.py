"""Tables of the smaller questions about networks, from trials made by hand."""

from __future__ import annotations

import sys

import pytest
from support import ROOT

pytest.importorskip("skorch")
sys.path.append(str(ROOT / "benchmarks"))
import network_ideas
from network_ideas import MARKS, SEARCHES, THESIS


def trial(accuracy, *, convolutions=0, error="", seconds=1.0):
    return {
        "accuracy": accuracy,
        "convolutions": convolutions,
        "error": error,
        "seconds": seconds,
        "layers": 2,
    }


def test_searches_are_compared_by_common_seeds():
    runs = {("mbo", 0): [], ("mbo", 1): [trial(0.5)], ("mboinl", 1): [trial(0.7)]}
    assert network_ideas.common(runs, "mbo", "mboinl") == [[[trial(0.5)]], [[trial(0.7)]]]


def test_failed_networks_are_no_part_of_the_median():
    run = [
        trial(0.3),
        trial(0.2, convolutions=2),
        trial(0.6, convolutions=3),
        trial(0.0, convolutions=2, error="GeometryError"),
    ]
    found = network_ideas.thesis_table({(name, 0): run for name in THESIS})
    assert found["rows"][0] == ["mbo", 0.6, "0.600", 0.275, "75 %", "33 %", 0.4, 0.6]


def test_inherited_weights_are_compared_configuration_by_configuration():
    plain = [trial(0.1)] * MARKS[-1]
    better = [trial(0.2)] * (MARKS[-1] - 2) + [trial(0.0), trial(0.0, error="TrainingDiverged")]
    runs = {(n, 0): plain for n, search in SEARCHES.items() if search.inherits is False}
    runs |= {(n, 0): better for n, search in SEARCHES.items() if search.inherits}
    found = network_ideas.inherit_table(runs)
    assert "Of the 27 configurations" in found["about"]
    assert "26 are more accurate with inherited weights and 1 less" in found["about"]
    assert found["rows"][1][1:4] == [0.2, 0.2, 0.2]


def test_a_training_that_ends_too_late_does_not_count():
    run = [trial(0.1, seconds=2), trial(0.3, seconds=2), trial(0.9, seconds=7)]
    found = network_ideas.seconds_table({("ei", 0): run, ("ei-per-second", 0): run}, 10.0)
    assert found["rows"][0][1:4] == [0.1, 0.3, 0.3]
