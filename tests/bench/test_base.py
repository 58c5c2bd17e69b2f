"""Problems and benchmarks: regrets, where runs begin, which past belongs to which task."""

from __future__ import annotations

import numpy as np
import pytest

from rankwise.bench.base import INITIAL, MODIFIERS, Benchmark, OpenProblem, TableProblem
from rankwise.errors import OptionError, UnknownNameError
from rankwise.history.task import Task
from rankwise.space.encoder import Encoder

ENCODER = Encoder({"x": (0.0, 1.0)})


def table(name: str = "t", losses=(3.0, 1.0, 2.0, 5.0, 4.0, 6.0, 7.0, 8.0), rows=None):
    losses = np.array(losses)
    return TableProblem.of(name, np.linspace(0, 1, len(losses))[:, None], losses, rows)


def history(name: str) -> Task:
    rng = np.random.default_rng(len(name) + ord(name[-1]))
    return Task.of(rng.random((9, 1)), rng.random(9), name=name)


def benchmark(**changes) -> Benchmark:
    parts = {
        "train": tuple("abcdefg"),
        "validation": ("v", "w"),
        "test": ("y", "z"),
    }
    return Benchmark("b", ENCODER, problem=table, history=history, **(parts | changes))


def test_regret_is_of_the_best_so_far_between_the_best_and_the_worst_row():
    curve = table().regrets(np.array([8.0, 4.5, 6.0, 1.0, 8.0]))
    np.testing.assert_allclose(curve, [1.0, 0.5, 0.5, 0.0, 0.0])


def test_losses_beyond_the_known_ones_count_as_the_best_and_the_worst():
    np.testing.assert_array_equal(table().regrets(np.array([99.0, -99.0])), [1.0, 0.0])


def test_a_loss_that_is_not_finite_is_as_bad_as_the_worst():
    losses = np.array([np.nan, np.inf, -np.inf, 4.5])
    np.testing.assert_allclose(table().regrets(losses), [1.0, 1.0, 1.0, 0.5])


def test_where_all_losses_are_equal_nothing_is_regretted():
    np.testing.assert_array_equal(table(losses=(2.0, 2.0)).regrets(np.array([2.0, 2.0])), [0, 0])


def test_given_rows_are_where_a_run_begins_and_others_are_drawn():
    given = np.array([4, 2, 0, 1, 3])
    problem = table(rows={3: given})
    np.testing.assert_array_equal(problem.initial(3), given)
    drawn = problem.initial(0)
    assert len(set(drawn.tolist())) == INITIAL and drawn.max() < len(problem.losses)
    np.testing.assert_array_equal(drawn, table(rows={}).initial(0))


def test_initial_rows_depend_on_the_seed_and_the_task():
    long = np.arange(1000.0)
    draws = [table(n, long).initial(s).tolist() for n, s in (("a", 0), ("a", 1), ("b", 0))]
    assert len(set(map(tuple, draws))) == 3


def test_a_table_of_few_rows_begins_with_all_of_them():
    assert sorted(table(losses=(1.0, 2.0, 3.0)).initial(0).tolist()) == [0, 1, 2]


def test_an_open_problem_begins_with_seeded_configurations():
    problem = OpenProblem("o", 0.0, 1.0, ENCODER, evaluate=lambda configuration: 0.0)
    first = problem.initial(0)
    assert first.shape == (INITIAL, 1)
    np.testing.assert_array_equal(first, problem.initial(0))
    assert not np.array_equal(first, problem.initial(1))


def test_the_past_is_the_train_and_validation_tasks():
    past = benchmark().past("y")
    assert [task.name for task in past.tasks] == list("abcdefg")
    assert [task.name for task in past.validation] == ["v", "w"]
    assert past.fingerprint == ENCODER.fingerprint
    assert benchmark().past_key("y") == benchmark().past_key("z")


def test_leaving_one_out_the_past_is_all_others():
    alone = benchmark(train=(), validation=(), test=tuple("abc"), leave_one_out=True)
    past = alone.past("b")
    assert [task.name for task in past.tasks] == ["a", "c"] and past.validation == ()
    assert alone.past_key("a") != alone.past_key("b")


def test_a_fold_optimises_every_third_train_task_and_does_not_learn_from_it():
    fold = benchmark().modified("fold")
    assert fold.name == "b:fold"
    assert fold.test == ("a", "d", "g") and fold.train == ("b", "c", "e", "f")
    assert fold.validation == ("v", "w")
    assert {task.name for task in fold.past("a").tasks}.isdisjoint(fold.test)


def test_validation_tasks_that_are_optimised_are_not_in_the_past():
    choosing = benchmark().modified("validation")
    assert choosing.test == ("v", "w") and choosing.past("v").validation == ()


def test_an_inverted_past_has_the_opposite_losses_in_every_part():
    past, plain = benchmark().modified("inverted").past("y"), benchmark().past("y")
    for part, other in ((past.tasks, plain.tasks), (past.validation, plain.validation)):
        for task, right in zip(part, other, strict=True):
            np.testing.assert_array_equal(task.y, -right.y)
            np.testing.assert_array_equal(task.X, right.X)


def test_a_shuffled_past_has_the_same_losses_at_other_places():
    task, right = (b.past("y").tasks[0] for b in (benchmark().modified("shuffled"), benchmark()))
    assert not np.array_equal(task.y, right.y)
    np.testing.assert_array_equal(np.sort(task.y), np.sort(right.y))
    again = benchmark().modified("shuffled").past("y").tasks[0]
    np.testing.assert_array_equal(task.y, again.y)


def test_a_misleading_past_leaves_the_task_to_be_optimised_as_it_is():
    problem = benchmark().modified("inverted").problem("y")
    np.testing.assert_array_equal(problem.losses, table("y").losses)


def test_modifiers_add_up():
    both = benchmark().modified("fold").modified("inverted")
    assert both.name == "b:fold:inverted"
    task = both.past("a").tasks[0]
    np.testing.assert_array_equal(task.y, -history(task.name).y)


@pytest.mark.parametrize("modifier", ["fold", "validation"])
def test_a_modifier_that_finds_no_tasks_says_so(modifier):
    with pytest.raises(OptionError, match="benchmark 'b' has"):
        benchmark(train=("a",), validation=()).modified(modifier)


def test_an_unknown_modifier_lists_the_valid_ones():
    with pytest.raises(UnknownNameError, match="Did you mean 'fold'") as caught:
        benchmark().modified("flod")
    assert all(modifier in str(caught.value) for modifier in MODIFIERS)
