"""Runs as arrays: order, gaps, damaged runs."""

from __future__ import annotations

import numpy as np
import pytest

from bench.invented import invented, run
from rankwise.bench.run_arrays import Missing, make_panel, make_panels
from rankwise.errors import BenchmarkDataError, OptionError, UnknownNameError


def test_runs_become_arrays_in_the_order_of_their_first_appearance():
    panel = make_panel(
        [
            run("b", "y", 1, [0.5, 0.25], seconds=np.array([2.0]), fallbacks=1),
            run("a", "x", 0, [0.4, 0.3]),
            run("b", "x", 0, [0.6, 0.6], seconds=np.array([3.0])),
            run("a", "y", 1, [0.2, 0.1]),
        ]
    )
    assert panel.methods == ("b", "a")
    assert panel.blocks == (("y", 1), ("x", 0))
    assert panel.regrets.tolist() == [[[0.5, 0.25], [0.6, 0.6]], [[0.2, 0.1], [0.4, 0.3]]]
    assert [s.tolist() for s in panel.seconds] == [[2.0, 3.0], []]
    assert panel.fallbacks == (1, 0)
    assert panel.missing == () and panel.present.all()


def test_runs_that_failed_and_runs_that_were_not_made_are_missing():
    error = "Traceback\n  File ...\nMemoryError: too much\n"
    panel = make_panel(
        [
            run("a", "x", 0, [0.5, 0.4]),
            run("a", "x", 1, [0.5, 0.4]),
            run("b", "x", 0, None, trials=1, error=error),
        ]
    )
    assert panel.missing == (
        Missing("b", "x", 0, "MemoryError: too much"),
        Missing("b", "x", 1, "not run"),
    )
    assert panel.present.tolist() == [[True, True], [False, False]]
    assert np.isnan(panel.regrets[1]).all()


def test_the_last_bits_of_a_regret_do_not_count():
    panel = make_panel([run("a", "x", 0, [0.3, 0.1 + 0.2]), run("b", "x", 0, [0.3, 0.3])])
    assert 0.1 + 0.2 != 0.3
    assert (panel.regrets[0] == panel.regrets[1]).all()


def test_benchmarks_and_protocols_are_kept_apart():
    runs = [
        *invented(trials=3),
        *invented(trials=3, initial=0),
        *invented(benchmark="o", trials=4),
    ]
    kinds = [(p.benchmark, p.initial, p.trials) for p in make_panels(runs)]
    assert kinds == [("made", 5, 3), ("made", 0, 3), ("o", 5, 4)]
    with pytest.raises(OptionError, match="not of 3: use make_panels"):
        make_panel(runs)
    with pytest.raises(OptionError, match="not of 0"):
        make_panel([])


def test_some_methods_can_be_taken_out():
    runs = [*invented(trials=3), run("late", "task 0", 0, [0.1] * 4)]
    panel = make_panel(runs)
    part = panel.only(["gp", "random"])
    assert part.methods == ("gp", "random") and part.missing == ()
    assert (part.regrets == panel.regrets[[2, 0]]).all()
    assert (part.seconds[0] == panel.seconds[2]).all()
    assert len(panel.only(["late"]).missing) == 11
    with pytest.raises(UnknownNameError, match="unknown method 'tpe'"):
        panel.only(["tpe"])


@pytest.mark.parametrize(
    ("second", "message"),
    [
        (run("a", "x", 0, [0.1, 0.1]), "with seed 0 is given twice"),
        (run("a", "y", 0, [0.1, np.nan]), "not finite"),
        (run("a", "y", 0, [np.inf, 0.1]), "not finite"),
    ],
)
def test_runs_that_contradict_or_are_damaged_are_refused(second, message):
    with pytest.raises(BenchmarkDataError, match=message):
        make_panel([run("a", "x", 0, [0.5, 0.4]), second])


def test_curves_of_the_wrong_length_are_refused():
    short = run("a", "x", 0, [0.5, 0.4])
    object.__setattr__(short, "trials", 2)
    with pytest.raises(BenchmarkDataError, match=r"shape \(2,\); 2 trials need the shape \(3,\)"):
        make_panel([short])
