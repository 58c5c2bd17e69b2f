"""The pruner: Optuna's pruning interface, with and without past studies."""

from __future__ import annotations

import math
import pickle

import numpy as np
import optuna
import pytest
from optuna.trial import TrialState, create_trial

import rankwise
from rankwise import RankwisePruner
from rankwise.errors import OptionError

STEPS = 20


@pytest.fixture(autouse=True)
def quiet():
    optuna.logging.set_verbosity(optuna.logging.ERROR)


def curve(quality: float, rng: np.random.Generator, scale: float = 1.0) -> list[float]:
    """A falling curve; the early values say much about the last one."""
    noise = 0.02 * rng.normal(size=STEPS)
    return [scale * (quality + 1 / (s + 1) + noise[s]) for s in range(STEPS)]


def past(studies=3, trials=25, stretch=1, direction="minimize"):
    storage, sign = optuna.storages.InMemoryStorage(), 1 if direction == "minimize" else -1
    for k in range(studies):
        rng = np.random.default_rng(k)
        study = optuna.create_study(storage=storage, study_name=f"past-{k}", direction=direction)
        for _ in range(trials):
            values = [sign * v for v in curve(rng.random(), rng, 10**k)]
            study.add_trial(
                create_trial(
                    value=values[-1],
                    intermediate_values={stretch * (s + 1): v for s, v in enumerate(values)},
                )
            )
    return storage


def run(pruner, trials=20, seed=0, direction="minimize", sampler=None):
    rng = np.random.default_rng([seed, 9])
    sign = 1 if direction == "minimize" else -1

    def objective(trial):
        values = curve(trial.suggest_float("quality", 0, 1), rng)
        for step, value in enumerate(values, 1):
            trial.report(sign * value, step)
            if trial.should_prune():
                raise optuna.TrialPruned
        return sign * values[-1]

    study = optuna.create_study(
        direction=direction,
        pruner=pruner,
        sampler=sampler or optuna.samplers.RandomSampler(seed=seed),
    )
    study.optimize(objective, n_trials=trials)
    return study


def steps_of(study):
    return sum(len(t.intermediate_values) for t in study.trials)


def best_was_kept(study):
    best = min(study.trials, key=lambda t: t.params["quality"])
    return best.state == TrialState.COMPLETE


@pytest.mark.parametrize("direction", ["minimize", "maximize"])
def test_a_past_saves_most_steps_and_keeps_the_best(direction):
    kept = []
    for seed in range(4):
        study = run(RankwisePruner(past(direction=direction)), 20, seed, direction)
        kept.append(best_was_kept(study))
        assert steps_of(study) < 0.6 * 20 * STEPS
    assert sum(kept) >= 3


def test_steps_of_the_past_are_fractions_of_its_longest_curve():
    steps = [steps_of(run(RankwisePruner(past(stretch=k)))) for k in (1, 50)]
    assert steps[0] == steps[1] < 20 * STEPS


def test_without_a_past_little_is_stopped_at_first_and_more_later():
    study = run(RankwisePruner(), 50)
    lengths = [len(t.intermediate_values) for t in study.trials]
    assert lengths[0] == STEPS and min(lengths[:3]) > 0.25 * STEPS and best_was_kept(study)
    assert np.mean(lengths[30:]) < 0.8 * np.mean(lengths[:10])


def test_the_first_trial_ends_unless_its_length_is_known_and_it_diverges():
    pruner = RankwisePruner(past(), longest=STEPS)
    study = optuna.create_study(pruner=pruner)
    first = study.ask()
    first.report(math.nan, 5)
    assert not first.should_prune()  # there is nothing to compare it with
    study.add_trial(
        create_trial(value=1.0, intermediate_values={s: 1 + 1 / s for s in range(1, STEPS + 1)})
    )
    for _ in range(8):
        study.add_trial(
            create_trial(state=TrialState.PRUNED, intermediate_values={1: 9.0, 2: 9.0})
        )
    last = study.ask()
    last.report(math.nan, 10)
    assert last.should_prune()


def test_noise_ties_and_gaps_do_not_stop_everything():
    """Curves that say nothing about the end, that are all equal, or that have gaps."""
    rng, storage = np.random.default_rng(3), optuna.storages.InMemoryStorage()
    for k in range(4):
        study = optuna.create_study(storage=storage, study_name=f"noise-{k}")
        for _ in range(20):
            values = {
                s: float(v) for s, v in enumerate(rng.random(STEPS), 1) if rng.random() < 0.8
            }
            study.add_trial(
                create_trial(value=rng.random(), intermediate_values={**values, STEPS: 0.0})
            )
    study = optuna.create_study(pruner=RankwisePruner(storage, longest=STEPS))

    def full(value):
        trial = study.ask()
        for step in range(1, STEPS + 1):
            trial.report(value(), step)
            if trial.should_prune():
                study.tell(trial, state=TrialState.PRUNED)
                return False
        study.tell(trial, rng.random())
        return True

    assert sum(full(rng.random) for _ in range(15)) >= 8
    assert all(full(lambda: -1.0) for _ in range(3))  # equal to the best so far


def test_trials_of_other_workers_are_compared_at_the_steps_that_they_have_reached():
    study = optuna.create_study(pruner=RankwisePruner(past(5, 40), longest=STEPS))
    trials = [study.ask() for _ in range(20)]
    for step in range(1, 11):
        for k, trial in enumerate(trials):
            trial.report(k + 1 / step, step)
    assert not trials[0].should_prune() and trials[-1].should_prune()
    ahead = study.ask()
    ahead.report(9.0, 15)  # no other trial has reached this step
    assert not ahead.should_prune()


def test_what_is_no_use_is_left_out_with_the_reason():
    storage = past(2)
    short = optuna.create_study(storage=storage, study_name="short")
    short.add_trial(create_trial(value=1.0, intermediate_values={1: 1.0}))
    optuna.create_study(storage=storage, study_name="plain").add_trial(create_trial(value=1.0))
    pruner = RankwisePruner(storage)
    run(pruner, 2)
    assert pruner.past_ == {"past-0": 25, "past-1": 25}
    assert pruner.left_out_ == {
        "short": "it has 1 full learning curve; at least 5 are needed",
        "plain": "it has no intermediate values",
    }


def test_an_archive_that_cannot_be_read_ends_no_study(caplog, tmp_path):
    study = run(RankwisePruner(f"sqlite:///{tmp_path}/missing.db"), 3)
    assert len(study.trials) == 3 and "past studies cannot be used" in caplog.text


def test_it_works_with_our_sampler_and_can_be_pickled():
    pruner = pickle.loads(pickle.dumps(RankwisePruner(past())))
    study = run(pruner, 8, sampler=rankwise.RankwiseSampler(seed=0))
    assert len(study.trials) == 8 and study.best_value < 0.6


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"threshold": 2}, "threshold is a number from 0 to 1, not 2"),
        ({"best": "few"}, "best is a number from 0 to 1, not 'few'"),
        ({"longest": 0}, "longest"),
    ],
)
def test_wrong_options_are_refused(options, text):
    with pytest.raises(OptionError, match=text):
        RankwisePruner(**options)
