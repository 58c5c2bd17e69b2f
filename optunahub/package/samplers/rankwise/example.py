"""Three past studies in a storage, and a new one that starts from them."""

from __future__ import annotations

import optuna
import optunahub


RankwiseSampler = optunahub.load_module(package="samplers/rankwise").RankwiseSampler


class Objective:
    """A bowl whose lowest point differs from study to study, but not by much."""

    def __init__(self, best: float) -> None:
        self.best = best

    def __call__(self, trial: optuna.Trial) -> float:
        x = trial.suggest_float("x", -5, 5)
        y = trial.suggest_float("y", -5, 5)
        return (x - self.best) ** 2 + (y + 1) ** 2


def main(n_trials: int = 15) -> optuna.Study:
    """Run the new study."""
    storage = optuna.storages.InMemoryStorage()  # or a URL, such as sqlite:///studies.db
    for seed, best in enumerate((1.8, 2.1, 2.2)):  # yours are there already
        random = optuna.samplers.RandomSampler(seed=seed)
        past = optuna.create_study(storage=storage, study_name=f"past-{best}", sampler=random)
        past.optimize(Objective(best), n_trials=30)

    sampler = RankwiseSampler(storage, like="past-*", seed=0)
    study = optuna.create_study(sampler=sampler)
    study.optimize(Objective(2.0), n_trials=n_trials)
    return study


if __name__ == "__main__":
    result = main()
    print(f"first {result.trials[0].value:.3f}, best {result.best_value:.3f}")
