"""Several objectives in `minimize`: the loop, the result, and past studies."""

from __future__ import annotations

import numpy as np
import optuna
import pytest

from rankwise import RankwiseSampler, TaskSet, minimize
from rankwise.errors import OptionError, StudyMismatchError, UnknownNameError

SPACE = {"x": (0.0, 1.0), "y": (0.0, 1.0)}
NAMED = {"quality": "maximize", "cost": "minimize"}


def both(configuration):
    """Quality grows with x, cost as well; y = 0.3 is best for both."""
    x, off = configuration["x"], (configuration["y"] - 0.3) ** 2
    return x - off, x**2 + off


def run(**options):
    options = {"trials": 12, "method": "gp", "seed": 0, "direction": NAMED, **options}
    return minimize(both, SPACE, **options)


def test_the_front_the_hypervolume_and_the_history():
    result = run()
    values = np.array([trial.values for trial in result.trials])
    losses = values * [-1, 1]
    on_front = [not ((losses <= p).all(1) & (losses < p).any(1)).any() for p in losses]
    assert sorted(t.number for t in result.front) == np.flatnonzero(on_front).tolist()
    assert result.history["on_front"].tolist() == on_front
    assert (np.diff(result.hypervolume) >= -1e-12).all() and 0 < result.hypervolume[-1] < 1
    assert result.best_trial in result.front
    assert result.history["values_cost"].tolist() == values[:, 1].tolist()
    assert "trials on the Pareto front" in str(result) and "quality" in str(result)
    assert [d.name for d in result.study.directions] == ["MAXIMIZE", "MINIMIZE"]
    assert result.study.metric_names == ["quality", "cost"]
    assert result.study.trials[3].values == list(result.trials[3].values)


def test_models_gain_on_random_search():
    def volume(method, seed):
        result = run(method=method, seed=seed, trials=15)
        values = np.array([t.values for t in result.trials]) * [-1, 1]
        from rankwise.acquisition.hypervolume import hypervolume

        return hypervolume(values, np.array([0.2, 1.2]))

    gains = [volume("gp", seed) - volume("random", seed) for seed in range(3)]
    assert np.mean(gains) > 0


def test_past_results_teach_each_objective():
    past = TaskSet.of(SPACE, {str(k): run(method="random", seed=k, trials=20) for k in range(3)})
    assert past.tasks[0].objectives.shape == (20, 2)
    result = run(method="eb-gp", tasks=past, trials=4)
    assert np.mean([abs(t.configuration["y"] - 0.3) < 0.15 for t in result.trials]) >= 0.75


def test_a_sampler_learns_from_studies_of_minimize():
    storage = optuna.storages.InMemoryStorage()
    for k in range(3):
        run(method="random", storage=storage, name=f"past-{k}", seed=k, trials=15)
    sampler = RankwiseSampler(storage, seed=0, strict=True)
    study = optuna.create_study(directions=list(NAMED.values()), sampler=sampler)
    study.set_metric_names(list(NAMED))
    trial = study.ask()
    trial.suggest_float("x", 0, 1)
    assert abs(trial.suggest_float("y", 0, 1) - 0.3) < 0.3 and len(sampler.past_.studies) == 3


def test_a_resumed_run_continues_as_if_it_had_not_stopped(tmp_path):
    url = f"sqlite:///{tmp_path}/runs.db"
    whole = run(trials=8)
    run(trials=5, storage=url, name="a")
    again = run(trials=8, storage=url, name="a", seed=None)
    assert [t.configuration for t in again.trials] == [t.configuration for t in whole.trials]
    with pytest.raises(StudyMismatchError, match="maximize and minimize, not to minimize"):
        run(storage=url, name="a", direction="minimize")


@pytest.mark.filterwarnings("ignore:trial")
def test_wrong_results_are_trials_without_a_value():
    answers = iter([(1.0,), 3.0, (1.0, float("nan")), (0.5, 0.5)])
    result = minimize(
        lambda c: next(answers),
        SPACE,
        trials=4,
        method="random",
        direction=["minimize", "minimize"],
    )
    assert [t.status for t in result.trials] == ["invalid"] * 3 + ["ok"]
    assert "which is not 2 numbers" in result.trials[0].error
    assert [t.number for t in result.front] == [3] and result.hypervolume[2] == 0


def test_worker_processes_return_all_values():
    result = run(n_jobs=2, trials=4, method="random")
    assert all(len(trial.values) == 2 for trial in result.trials)


def test_the_plot_shows_the_front(tmp_path):
    run(method="random").plot(tmp_path / "front.png")
    assert (tmp_path / "front.png").stat().st_size > 5000
    with pytest.raises(OptionError, match="drawn as"):
        run(method="random").plot(tmp_path / "front.html")


@pytest.mark.parametrize(
    ("options", "kind", "text"),
    [
        ({"direction": ["minimize"] * 5}, OptionError, "one to 4 objectives, not 5"),
        ({"direction": ["minimize", "down"]}, UnknownNameError, "down"),
        ({"target": 0.1}, OptionError, "one objective"),
        ({"method": "cma-es"}, OptionError, "has no model of the losses"),
    ],
)
def test_what_several_objectives_cannot_do_is_refused(options, kind, text):
    with pytest.raises(kind, match=text):
        run(**options)


def test_a_past_study_with_one_objective_is_refused():
    past = TaskSet.of(SPACE, {"one": ([{"x": 0.1, "y": 0.1}], [1.0])})
    with pytest.raises(OptionError, match="'one' has 1 objective and this study has 2"):
        run(method="eb-gp", tasks=past)
