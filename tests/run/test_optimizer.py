"""Ask and tell: bookkeeping, errors, designs."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rankwise import Design, Encoder, Optimizer, TaskSet, Trial, make_space, minimize
from rankwise.errors import ConfigurationError, OptionError, UnknownNameError
from rankwise.history.task import Task

SPACE = {"x": (0.0, 1.0), "k": ["a", "b"]}


@pytest.fixture
def optimizer():
    return Optimizer(SPACE, method="random", seed=0)


def test_trials_are_numbered_in_the_order_of_proposal(optimizer):
    first, second, third = optimizer.ask(3)
    optimizer.tell(third, 3.0)
    optimizer.tell(first, 1.0, cost=2.5)
    assert [t.number for t in optimizer.trials] == [0, 1, 2]
    assert [t.status for t in optimizer.trials] == ["ok", "pending", "ok"]
    assert optimizer.history.y.tolist() == [1.0, 3.0]
    assert optimizer.history.cost[0] == 2.5
    assert optimizer.encoder.decode(optimizer.pending) == [second]


def test_best_is_the_earliest_of_the_smallest(optimizer):
    assert optimizer.best is None
    a, b, c, d = optimizer.ask(4)
    for configuration, value in ((d, 1.0), (b, 1.0), (a, 2.0), (c, math.nan)):
        optimizer.tell(configuration, value)
    assert optimizer.best.number == 1


@pytest.mark.parametrize(
    ("value", "status", "recorded"),
    [
        (1.0, None, "ok"),
        (math.nan, None, "invalid"),
        (math.inf, None, "invalid"),
        (-math.inf, "ok", "invalid"),
        (1.0, "failed", "failed"),
        (math.nan, "timeout", "timeout"),
    ],
)
def test_status_follows_from_the_value_or_is_given(optimizer, value, status, recorded):
    [configuration] = optimizer.ask()
    trial = optimizer.tell(configuration, value, status=status)
    assert trial.status == recorded
    assert math.isnan(trial.value) == (recorded != "ok")


@pytest.mark.parametrize(
    ("configuration", "message"),
    [
        ({"x": 2.0, "k": "a"}, r"'x' must be a number in \[0.0, 1.0\], not 2.0"),
        ({"x": 0.5, "k": "c"}, r"'k' must be one of \['a', 'b'\], not 'c'"),
        ({"x": 0.5}, "'k' is active"),
        ({"x": 0.5, "k": "a", "z": 1}, "unknown hyperparameter 'z'; the space has"),
    ],
)
def test_a_tell_outside_the_space_is_refused_and_changes_nothing(
    optimizer, configuration, message
):
    asked = optimizer.ask(2)
    optimizer.tell(asked[0], 1.0)
    before = optimizer.trials
    with pytest.raises(ConfigurationError, match=message):
        optimizer.tell(configuration, 1.0)
    assert optimizer.trials == before


def test_restore_takes_over_a_trial_under_its_number(optimizer):
    optimizer.restore(Trial(4, {"x": 0.5, "k": "a"}, "ok", 1.0))
    assert optimizer.best.number == 4
    optimizer.ask()
    assert optimizer.trials[-1].number == 5


def test_a_design_can_be_given_as_configurations():
    design = [{"x": 0.25, "k": "b"}, {"x": 0.75, "k": "a"}]
    optimizer = Optimizer(SPACE, method="gp", design=design, seed=0)
    assert optimizer.ask(2) == design
    with pytest.raises(ConfigurationError):
        Optimizer(SPACE, design=[{"x": 7.0, "k": "a"}])


@pytest.mark.parametrize(
    "design", ["lhs", "lhs-4d", "sobol-3d", "random-7", 6, Design("grid", 5), "default-2"]
)
def test_designs_by_name_and_size(design):
    optimizer = Optimizer(SPACE, method="gp", design=design, seed=0)
    assert len(optimizer._design_rows) == {
        "lhs": 4,
        "lhs-4d": 8,
        "sobol-3d": 6,
        "random-7": 7,
        6: 6,
    }.get(design if isinstance(design, str | int) else None, 5 if design != "default-2" else 2)
    if design == "default-2":
        assert optimizer.ask() == [optimizer.encoder.default]


def test_methods_bring_a_latin_hypercube_of_twice_the_dimension():
    assert len(Optimizer(SPACE, method="gp", seed=0)._design_rows) == 4


def test_a_fresh_seed_is_drawn_and_told():
    optimizer = Optimizer(SPACE, method="random")
    again = Optimizer(SPACE, method="random", seed=optimizer.seed)
    assert optimizer.ask(3) == again.ask(3)


@pytest.mark.parametrize("seed", [-1, 1.5, "a", True])
def test_bad_seeds_are_refused(seed):
    with pytest.raises(OptionError, match="seed"):
        Optimizer(SPACE, seed=seed)


def test_bad_requests_are_refused(optimizer):
    with pytest.raises(OptionError, match="at least one"):
        optimizer.ask(0)
    with pytest.raises(UnknownNameError, match="status"):
        optimizer.tell(optimizer.ask()[0], 1.0, status="meh")
    with pytest.raises(UnknownNameError, match=r"design 'lsh'.*Did you mean 'lhs'"):
        Optimizer(SPACE, design="lsh")


def test_numpy_values_are_told_as_well(optimizer):
    optimizer.tell({"x": np.float64(0.5), "k": np.str_("a")}, np.float32(1.0))
    assert optimizer.best.value == 1.0


def test_what_a_method_believed_of_a_proposal():
    optimizer = Optimizer({"x": (0.0, 1.0)}, method="gp", seed=0)
    [first] = optimizer.ask()
    [nothing] = optimizer.explain([first])
    assert nothing.mean is None and nothing.std is None
    for x in (first["x"], 0.1, 0.5, 0.9):
        optimizer.tell({"x": x}, (x - 0.5) ** 2)
    near, far = optimizer.explain([{"x": 0.51}, {"x": 0.12}])
    assert abs(near.mean) < 0.05 and near.mean < far.mean
    assert 0 <= near.std < 1
    assert near.evidence is None and near.sources is None
    assert Optimizer(SPACE, method="random").explain([{"x": 0.5, "k": "a"}])[0].mean is None


@pytest.mark.parametrize(
    ("method", "options", "in_losses"),
    [
        ("gp", {}, True),
        ("hebo", {"transform": "standardize"}, True),
        ("hebo", {}, False),
        ("gp", {"transform": "power"}, False),
        ("gp", {"transform": "copula"}, False),
    ],
)
def test_beliefs_are_losses_or_are_not_told(method, options, in_losses):
    optimizer = Optimizer({"x": (0.0, 1.0)}, method=method, seed=0, **options)
    for x in np.linspace(0, 1, 9):
        optimizer.tell({"x": x}, 1000 + 100 * (x - 0.2) ** 2)
    [belief] = optimizer.explain([{"x": 0.9}])
    if in_losses:
        assert belief.mean == pytest.approx(1049.0, abs=3.0) and 0 <= belief.std < 10
    else:
        assert belief.mean is None and belief.std is None


def test_what_a_method_with_a_past_believed_of_a_proposal():
    grid = [{"x": x} for x in np.linspace(0, 1, 12)]
    past = {f"past {k}": (grid, [(c["x"] - 0.3) ** 2 * 10**k for c in grid]) for k in range(4)}
    space = {"x": (0.0, 1.0)}
    optimizer = Optimizer(space, method="eb-gp", tasks=TaskSet.of(space, past), seed=0)
    [first] = optimizer.ask()
    [before] = optimizer.explain([first])
    assert before.mean is None, "the scale of the losses is not known yet"
    assert set(before.sources) == set(past)
    optimizer.tell(first, 1.0)
    optimizer.tell({"x": 0.9}, 5.0)
    good, bad = optimizer.explain([{"x": 0.3}, {"x": 0.85}])
    assert good.mean < 1.5 < bad.mean
    assert 0 < good.evidence.trust <= 1 and 0 < sum(good.sources.values()) <= 1


def test_a_run_encodes_each_configuration_once(monkeypatch):
    encoded = []
    encode = Encoder.encode
    monkeypatch.setattr(
        Encoder, "encode", lambda self, some: encoded.extend(some) or encode(self, some)
    )
    result = minimize(lambda c: c["x"] ** 2, {"x": (-5.0, 5.0)}, method="gp", trials=12, seed=0)
    assert len(result.trials) == len(encoded) == 12


def test_finishing_a_trial_is_telling_its_configuration():
    told, finished = (Optimizer({"x": (-5.0, 5.0)}, method="gp", seed=0) for _ in range(2))
    for value in (1.0, float("nan"), 3.0):
        [configuration] = told.ask()
        [trial] = finished.propose()
        told.tell(configuration, value, cost=2.0)
        finished.finish(trial.number, value, cost=2.0)
    assert repr(told.trials) == repr(finished.trials)
    assert [t.status for t in finished.trials] == ["ok", "invalid", "ok"]
    np.testing.assert_array_equal(told.history.X, finished.history.X)
    for number in (0, 3):
        with pytest.raises(OptionError, match=f"no pending trial {number}"):
            finished.finish(number, 1.0)


def test_a_configuration_that_was_changed_after_it_was_asked_for_is_another_trial():
    optimizer = Optimizer({"x": (-5.0, 5.0)}, method="random", seed=0)
    [configuration] = optimizer.ask()
    optimizer.tell({**configuration, "x": 2.5}, 1.0)
    assert [trial.status for trial in optimizer.trials] == ["pending", "ok"]
    assert optimizer.history.X.tolist() == [[0.75]]


def test_a_chosen_default_is_among_the_first_three_with_past_studies():
    tasks = []
    for k in range(4):
        X = np.random.default_rng(k).random((12, 2))
        tasks.append(Task.of(X, (X[:, 0] - 0.2) ** 2 + 0.1 * X[:, 1] + 0.01 * k))
    parameters = {"a": (0.0, 1.0), "b": (0.0, 1.0)}

    def first_three(default):
        optimizer = Optimizer(make_space(parameters, defaults=default), tasks=tasks, seed=0)
        found = []
        for _ in range(3):
            [configuration] = optimizer.ask()
            optimizer.tell(configuration, (configuration["a"] - 0.3) ** 2)
            found.append(configuration)
        return found

    chosen, plain = {"a": 0.9, "b": 0.7}, {"a": 0.5, "b": 0.5}
    first = first_three(chosen)
    assert first[2] == chosen and first[0] != chosen  # it is not expected to be best
    assert plain not in first_three({})  # nobody chose the middle
