"""Synthetic families: the known optimum is the optimum, and the knob does what it says."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import spearmanr

from rankwise.bench import benchmarks as registry
from rankwise.bench.synthetic_families import (
    FUNCTIONS,
    PAST,
    SOURCES,
    TASKS,
    VARIANTS,
    Loss,
    family,
    make_loss,
)
from rankwise.errors import OptionError, UnknownNameError

NAMES = sorted(FUNCTIONS)
RELATEDNESS = (1.0, 0.4, 0.0)
POINTS = np.random.default_rng(3).random((400, 6))


def box(name: str) -> np.ndarray:
    return np.array(FUNCTIONS[name].box)


def sample(name: str) -> np.ndarray:
    low, high = box(name).T
    return low + POINTS[:, : len(low)] * (high - low)


def refined(loss: Loss, start: np.ndarray) -> float:
    return minimize(lambda x: loss.at(x[None])[0], start, bounds=box(loss.family)).fun


@pytest.mark.parametrize("relatedness", RELATEDNESS)
@pytest.mark.parametrize("name", NAMES)
def test_the_best_loss_is_reached_and_never_undercut(name, relatedness):
    for task in ("test-0", "train-7"):
        loss, points = make_loss(name, task, relatedness), sample(name)
        values = loss.at(points)
        found = min(refined(loss, x) for x in points[np.argsort(values)[:5]])
        assert found == pytest.approx(loss.best, abs=1e-5)
        assert found >= loss.best - 1e-9
        assert values.max() <= loss.worst + 1e-3 * (loss.worst - loss.best)


@pytest.mark.parametrize("relatedness", RELATEDNESS)
@pytest.mark.parametrize("name", NAMES)
def test_the_best_loss_is_at_the_centre(name, relatedness):
    for task in family(name).train:
        loss = make_loss(name, task, relatedness)
        place = np.empty(len(loss.order))
        place[list(loss.order)] = loss.centre
        assert place.min() > 0 and place.max() < 1
        low, high = box(name).T
        value = loss.at((low + place * (high - low))[None])[0]
        assert value == pytest.approx(loss.best, abs=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_related_tasks_agree_and_unrelated_ones_do_not(name):
    def agreement(relatedness: float) -> float:
        """Mean rank correlation of the past of each train task with each test task."""
        benchmark, correlations = family(name, relatedness=relatedness), []
        for task in map(benchmark.history, benchmark.train):
            values = benchmark.encoder.decode_codes(task.X)
            for target in benchmark.test:
                y = benchmark.problem(target).evaluate.at(values)
                correlations.append(spearmanr(y, task.y).statistic)
        return float(np.mean(correlations))

    near, far, opposite = map(agreement, (1.0, 0.0, -1.0))
    assert near > 0.6 and abs(far) < 0.25 and opposite == pytest.approx(-near)


def test_unrelated_tasks_are_mirrored_and_permuted_and_related_ones_are_not():
    names = family("hartmann").train
    related, unrelated = ([make_loss("hartmann", n, r) for n in names] for r in (1.0, 0.0))
    assert all(min(loss.slopes) > 0 and loss.order == tuple(range(6)) for loss in related)
    mirrored = np.mean([slope < 0 for loss in unrelated for slope in loss.slopes])
    assert 0.35 < mirrored < 0.65 and len({loss.order for loss in unrelated}) > 15


@pytest.mark.parametrize("name", NAMES)
def test_slopes_mirror_and_stretch_around_the_centre(name):
    loss = replace(make_loss(name, "test-0", 1.0), centre=(0.5,) * len(FUNCTIONS[name].box))
    low, high = box(name).T
    step = 0.2 * POINTS[:20, : len(low)]
    values = loss.at(low + (0.5 + step) * (high - low))
    mirrored = replace(loss, slopes=tuple(-s for s in loss.slopes))
    np.testing.assert_allclose(mirrored.at(low + (0.5 - step) * (high - low)), values, rtol=1e-9)
    narrow = replace(loss, slopes=tuple(2 * s for s in loss.slopes))
    np.testing.assert_allclose(narrow.at(low + (0.5 + step / 2) * (high - low)), values, rtol=1e-9)


def test_the_function_values_are_the_known_ones():
    U = np.array([[0.2, 0.4]])
    a, b = -2.0, 6.0
    expected = (b - 5.1 / (4 * np.pi**2) * a**2 + 5 / np.pi * a - 6) ** 2
    expected += 10 * (1 - 1 / (8 * np.pi)) * np.cos(a) + 10
    assert FUNCTIONS["branin"].values(U)[0] == pytest.approx(expected)
    middle = FUNCTIONS["hartmann"].values(np.full((1, 6), 0.5))[0]
    assert middle == pytest.approx(-0.5053149, abs=1e-6)


def test_the_past_is_what_the_tasks_are():
    benchmark = family("quadratics")
    task = benchmark.history("train-3")
    assert len(task) == PAST
    problem = benchmark.problem("train-3")
    losses = [problem.evaluate(c) for c in benchmark.encoder.decode(task.X)]
    np.testing.assert_allclose(task.y, losses, rtol=1e-9)
    np.testing.assert_array_equal(task.y, benchmark.history("train-3").y)
    past = benchmark.past("test-0")
    assert (len(past.tasks), len(past.validation)) == (TASKS["train"], TASKS["validation"])


def test_an_adversarial_past_has_the_opposite_sign_and_the_task_has_not():
    right, lying = family("branin"), family("branin", relatedness=-1.0)
    np.testing.assert_array_equal(lying.history("train-0").y, -right.history("train-0").y)
    configuration = right.encoder.default
    assert lying.problem("test-0").evaluate(configuration) == right.problem("test-0").evaluate(
        configuration
    )


def test_every_variant_is_registered_and_can_be_sent_to_a_worker():
    assert len(SOURCES) == len(FUNCTIONS) * len(VARIANTS)
    for source in SOURCES:
        benchmark = pickle.loads(pickle.dumps(registry.load(source.name)))
        assert benchmark.name == source.name and source.summary
        problem = pickle.loads(pickle.dumps(benchmark.problem("test-0")))
        loss = problem.evaluate(benchmark.encoder.default)
        assert problem.best <= loss <= problem.worst


def test_what_makes_no_sense_is_refused():
    with pytest.raises(UnknownNameError, match="Did you mean 'branin'"):
        family("brannin")
    with pytest.raises(OptionError, match="from -1 to 1, not 2"):
        family("branin", relatedness=2)
