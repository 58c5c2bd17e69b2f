"""Task: failures are facts, and imputed as bad ones. TaskSet: past tasks of one space."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankwise import Encoder, TaskSet, minimize
from rankwise.errors import ConfigurationError, OptionError, UnknownNameError
from rankwise.history.task import FAILED, INVALID, OK, TIMEOUT, Task, as_task_set, impute

NAN = float("nan")
losses = st.floats(allow_nan=False, allow_infinity=False)


def _task(y, **options):
    return Task.of(np.zeros((len(y), 2)), y, **options)


def test_a_task_keeps_what_it_is_given():
    X = np.arange(6.0).reshape(3, 2)
    task = Task.of(X, [3, 1, 2], cost=[1, NAN, 3], name="iris")
    assert len(task) == 3 and task.name == "iris" and task.status == (OK,) * 3
    np.testing.assert_array_equal(task.X, X)
    np.testing.assert_array_equal(task.losses, [3.0, 1.0, 2.0])
    np.testing.assert_array_equal(task.cost, [1, NAN, 3])
    assert np.isnan(_task([1.0, 2.0]).cost).all()


def test_losses_that_are_no_numbers_are_invalid():
    task = _task([1.0, NAN, float("inf"), float("-inf"), 2.0])
    assert task.status == (OK, INVALID, INVALID, INVALID, OK)
    assert task.ok.tolist() == [True, False, False, False, True]
    assert np.isnan(task.y[1:4]).all()


def test_huge_losses_are_clipped_so_that_their_variance_is_finite():
    task = _task([1e300, -1.7e308, 1.0, float("inf")])
    np.testing.assert_array_equal(task.y, [1e100, -1e100, 1.0, NAN])
    assert np.isfinite([task.losses.var(), np.ptp(task.losses)]).all()


def test_a_failure_has_no_loss_whatever_was_reported():
    task = _task([1.0, 0.0, -5.0], status=[OK, FAILED, TIMEOUT])
    assert task.ok.tolist() == [True, False, False]
    assert (task.losses[1:] > 1.0).all()


@pytest.mark.parametrize(
    ("y", "expected"),
    [
        ([1.0, 3.0, NAN], [1.0, 3.0, 3.2]),
        ([-3.0, NAN, -1.0, NAN], [-3.0, -0.8, -1.0, -0.8]),
        ([2.0, NAN, 2.0], [2.0, 2.2, 2.0]),
        ([-2.0, NAN], [-2.0, -1.8]),
        ([0.0, NAN], [0.0, 1e-3]),
        ([NAN, NAN], [0.0, 0.0]),
        ([1.0, 2.0], [1.0, 2.0]),
        ([], []),
    ],
    ids=str,
)
def test_failures_are_worse_than_the_worst_by_a_tenth_of_the_range(y, expected):
    assert impute(np.array(y)) == pytest.approx(expected)
    assert _task(y).losses == pytest.approx(expected)


@given(st.lists(losses, min_size=1), st.integers(1, 3))
def test_imputed_losses_are_finite_and_never_better_than_one_seen(seen, failures):
    y = np.array(seen + [NAN] * failures)
    filled = impute(y)
    assert np.isfinite(filled).all()
    np.testing.assert_array_equal(filled[: len(seen)], seen)
    assert (filled[len(seen) :] >= max(seen)).all()


def test_a_lie_extends_the_history_and_leaves_the_original():
    task = Task.of([[0.1, 0.2]], [1.0], cost=[2.0], status=[FAILED], name="t")
    longer = task.extended(np.ones((2, 2)), 0.5)
    assert len(task) == 1 and len(longer) == 3 and longer.name == "t"
    assert longer.status == (FAILED, OK, OK)
    np.testing.assert_array_equal(longer.X, [[0.1, 0.2], [1, 1], [1, 1]])
    np.testing.assert_array_equal(longer.y, [NAN, 0.5, 0.5])
    np.testing.assert_array_equal(longer.cost, [2.0, NAN, NAN])


def test_an_empty_task():
    task = Task.of(np.empty((0, 4)), [])
    assert len(task) == 0 and task.losses.shape == (0,) and task.X.shape == (0, 4)


@pytest.mark.parametrize(
    "wrong",
    [
        {"y": [1.0, 2.0]},
        {"y": [1.0]},
        {"status": [OK]},
        {"status": [OK] * 4},
        {"cost": [1.0]},
        {"cost": [1.0] * 4},
    ],
    ids=str,
)
def test_lengths_must_agree(wrong):
    with pytest.raises(ValueError, match=r"rows|status|cost"):
        Task.of(np.zeros((3, 2)), **({"y": [1.0, 2.0, 3.0]} | wrong))


def test_an_unknown_status_lists_the_valid_ones():
    with pytest.raises(UnknownNameError, match="'fine'; valid: failed, invalid, ok, timeout"):
        _task([1.0], status=["fine"])


# ---------------------------------------------------------------------- sets of tasks

SPACE = {"x": (0.0, 10.0), "kind": ["a", "b", "c"]}
ENCODER = Encoder(SPACE)
CONFIGURATIONS = [{"x": 1.0, "kind": "a"}, {"x": 5.0, "kind": "c"}, {"x": 9.0, "kind": "b"}]


def several(n: int, size: int = 3) -> TaskSet:
    rng = np.random.default_rng(0)
    return TaskSet(
        tuple(Task.of(rng.random((size, 2)), rng.random(size), name=f"t{k}") for k in range(n))
    )


def names(tasks) -> list[str]:
    return [t.name for t in tasks]


def test_a_set_is_made_of_pairs_tasks_and_results():
    encoded = Task.of(ENCODER.encode(CONFIGURATIONS[:2]), [1.0, 2.0], name="old name")
    result = minimize(lambda c: c["x"], SPACE, trials=4, method="random", seed=0)
    studies = {"pair": (CONFIGURATIONS, [3, NAN, 1]), "task": encoded, "result": result}
    past = TaskSet.of(SPACE, studies)
    assert len(past) == 3 and names(past.tasks) == ["pair", "task", "result"]
    assert past.validation == () and past.fingerprint == ENCODER.fingerprint
    pair, task, run = past.tasks
    np.testing.assert_array_equal(pair.X, ENCODER.encode(CONFIGURATIONS))
    np.testing.assert_array_equal(pair.y, [3.0, NAN, 1.0])
    assert pair.status == (OK, INVALID, OK)
    np.testing.assert_array_equal(task.X, encoded.X)
    np.testing.assert_array_equal(run.X, ENCODER.encode(t.configuration for t in result.trials))
    np.testing.assert_array_equal(run.y, [t.value for t in result.trials])


def test_results_are_losses_whatever_their_direction_and_failures_stay_failures():
    def moody(configuration):
        if configuration["x"] > 5:
            raise RuntimeError("too large")
        return configuration["x"]

    options = {"trials": 8, "method": "random", "seed": 0}
    with pytest.warns(UserWarning, match="too large"):
        result = minimize(moody, SPACE, direction="maximize", **options)
    [task] = TaskSet.of(ENCODER, {"study": result}).tasks
    failed = np.array([t.status != OK for t in result.trials])
    assert 0 < failed.sum() < 8
    np.testing.assert_array_equal(~task.ok, failed)
    assert task.y[~failed].tolist() == [-t.value for t in result.trials if t.status == OK]
    assert (task.losses[failed] > task.losses[~failed].max()).all()


def test_the_space_may_be_given_as_a_space_or_an_encoder():
    studies = {"one": (CONFIGURATIONS, [1.0, 2.0, 3.0])}
    sets = [TaskSet.of(space, studies) for space in (SPACE, ENCODER, ENCODER.space)]
    assert len({s.digest for s in sets}) == len({s.fingerprint for s in sets}) == 1


def test_studies_may_be_empty_and_there_may_be_none():
    assert len(TaskSet.of(SPACE, {})) == 0
    [task] = TaskSet.of(SPACE, {"nothing": ([], [])}).tasks
    assert len(task) == 0 and task.X.shape == (0, ENCODER.n_columns)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"x": 11.0, "kind": "a"}, r"study 'wine': .*'x'"),
        ({"x": 1.0, "kind": "d"}, r"study 'wine': .*'kind'"),
        ({"x": 1.0}, r"study 'wine': .*'kind'"),
        ({"x": 1.0, "kind": "a", "y": 2}, r"study 'wine': .*'y'"),
    ],
    ids=str,
)
def test_a_wrong_configuration_names_its_study(wrong, message):
    good = (CONFIGURATIONS, [1.0, 2.0, 3.0])
    with pytest.raises(ConfigurationError, match=message):
        TaskSet.of(SPACE, {"iris": good, "wine": ([*CONFIGURATIONS, wrong], [1.0, 2.0, 3.0, 4.0])})


def test_other_mistakes_name_the_study_as_well():
    with pytest.raises(ConfigurationError, match=r"task 'wine' has 3 columns, not the 4 of the"):
        TaskSet.of(SPACE, {"wine": Task.of(np.ones((2, 3)), [1.0, 2.0])})
    with pytest.raises(ValueError, match=r"wine.*3 .*2"):
        TaskSet.of(SPACE, {"wine": (CONFIGURATIONS, [1.0, 2.0])})


def test_a_plain_sequence_is_a_set_of_an_unknown_space():
    past = several(3)
    assert as_task_set(past) is past
    again = as_task_set(iter(past.tasks))
    assert again.tasks == past.tasks and again.fingerprint == ""
    assert len(as_task_set(())) == 0


@pytest.mark.parametrize(
    ("n", "share", "aside"),
    [(0, 0.2, 0), (4, 0.2, 0), (4, 0.9, 0), (5, 0.2, 1), (6, 0.2, 2), (20, 0.2, 4), (20, 0.0, 0)],
)
def test_a_part_is_set_aside_if_there_are_five(n, share, aside):
    past = several(n)
    split = past.split(share)
    assert (len(split.tasks), len(split.validation)) == (n - aside, aside)
    parts = names(split.tasks), names(split.validation)
    assert sorted(parts[0] + parts[1]) == sorted(names(past.tasks))
    order = {name: k for k, name in enumerate(names(past.tasks))}
    assert all(part == sorted(part, key=order.get) for part in parts)


def test_something_is_always_left_to_learn_from():
    split = several(5).split(0.95)
    assert len(split.tasks) > 0


def test_a_split_depends_on_the_seed_alone():
    past = several(20)
    first, again, other = (names(past.split(0.3, seed=s).validation) for s in (1, 1, 2))
    assert first == again != other


def test_a_split_set_can_be_split_again():
    past = several(10)
    halves = past.split(0.5)
    once_more = halves.split(0.2)
    assert (len(once_more.tasks), len(once_more.validation)) == (8, 2)
    assert sorted(names(once_more.tasks + once_more.validation)) == names(past.tasks)


@pytest.mark.parametrize("share", [-0.1, 1.0, 2])
def test_a_share_that_makes_no_sense_is_refused(share):
    with pytest.raises(OptionError, match=r"share of validation tasks is in \[0, 1\)"):
        several(6).split(share)


def test_the_digest_says_whether_two_sets_teach_the_same():
    past = several(6)
    assert past.digest == several(6).digest
    renamed = TaskSet(tuple(Task.of(t.X, t.y, name="x") for t in past.tasks))
    assert renamed.digest == past.digest
    a, *rest = past.tasks
    changed = Task.of(a.X, a.y + np.array([0, 0, 1e-9]))
    failed = Task.of(a.X, np.where(a.y == a.y.max(), NAN, a.y))
    others = [
        TaskSet((changed, *rest)),
        TaskSet((failed, *rest)),
        TaskSet(tuple(rest)),
        TaskSet((*rest, a)),
        TaskSet(past.tasks, fingerprint="of a space"),
        TaskSet(past.tasks[:5], past.tasks[5:]),
        past.split(),
        TaskSet(()),
    ]
    digests = {past.digest, *(s.digest for s in others)}
    assert len(digests) == 1 + len(others)


def test_the_digest_sees_where_one_task_ends_and_the_next_begins():
    short, long = Task.of([[0.1]], [0.2]), Task.of([[0.3], [0.4]], [0.5, 0.6])
    other = Task.of([[0.1], [0.2]], [0.3, 0.4]), Task.of([[0.5]], [0.6])
    assert TaskSet((short, long)).digest != TaskSet(other).digest


@pytest.mark.parametrize("wrong", [{"a": 1}, [1.5], "past", 3], ids=str)
def test_what_is_no_past_is_refused(wrong):
    with pytest.raises(OptionError, match=r"rankwise.TaskSet.of\(space"):
        as_task_set(wrong)
    with pytest.raises(OptionError, match="studies are a dict from names to studies"):
        TaskSet.of({"x": (0.0, 1.0)}, [wrong])


def test_no_past_is_an_empty_one():
    assert as_task_set(None) == as_task_set(()) == TaskSet(())


def test_everything_are_tasks_to_learn_from_and_for_validation():
    first, second = (Task.of([[0.0], [1.0]], [1.0, y]) for y in (2.0, 3.0))
    past = TaskSet((first,), (second,))
    assert len(past) == 1 and past.everything == (first, second)
