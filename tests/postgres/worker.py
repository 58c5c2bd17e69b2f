"""A worker of a shared study: start as many as you like, and start them again when they die.

    python worker.py postgresql+psycopg://user@host/database

**Exactly as many finished trials as were asked for.** `n_trials` counts what one process does,
and `MaxTrialsCallback` is asked after a trial, when other workers are in the middle of theirs:
with several workers, some of which die, both end with too few or too many. Tickets do not:

- Whoever creates the study enqueues one trial without parameters for each that is wanted:
  `study.enqueue_trial({}, user_attrs={"ticket": k})`. The sampler chooses the parameters later.
- Taking a trial from the queue is atomic, so that a ticket has one worker at a time.
- If the worker dies, its heart stops beating; another one marks the trial as failed, and the
  callback of the storage enqueues it again: with its user attributes, so with its ticket.
- A worker that was too late for the last ticket gets a new trial from Optuna, without one. It
  prunes that before any parameter is asked for.

So each ticket ends in one finished trial, no matter who dies when, with one exception: Optuna
cannot know of a death between taking a trial and its first heartbeat, some milliseconds later.
"""

from __future__ import annotations

import os
import sys
import time
import warnings

import optuna

from rankwise import RankwiseSampler

KINDS = list("uvwxyz")


def loss(trial: optuna.Trial, shift: float = 0.0) -> float:
    """60 configurations, so that workers often want the same one."""
    kind = trial.suggest_categorical("kind", KINDS)
    level = trial.suggest_int("level", 0, 9)
    return KINDS.index(kind) + abs(level - 4 - shift)


def objective(trial: optuna.Trial) -> float:
    if "ticket" not in trial.user_attrs:
        raise optuna.TrialPruned("no ticket is left")
    trial.set_user_attr("worker", os.getpid())
    value = loss(trial)
    time.sleep(0.1 + 0.02 * value)
    return value


def missing(study: optuna.Study) -> bool:
    """Whether a ticket has no finished trial yet."""
    trials = study.get_trials(deepcopy=False)
    tickets = {t.user_attrs["ticket"] for t in trials if "ticket" in t.user_attrs}
    done = sum(t.state == optuna.trial.TrialState.COMPLETE for t in trials)
    return done < len(tickets)


def main(url: str) -> None:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
    storage = optuna.storages.RDBStorage(
        url,
        heartbeat_interval=1,
        grace_period=3,
        heartbeat_stale_trial_callback=optuna.storages.RetryHeartbeatStaleTrialCallback(),
    )
    sampler = RankwiseSampler(url, like="past-*", seed=0)
    study = optuna.load_study(storage=storage, study_name="shared", sampler=sampler)
    while missing(study):
        if study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.WAITING,)):
            study.optimize(objective, n_trials=1)
        else:  # others have the last tickets: take over should they die
            optuna.storages.fail_stale_trials(study)
            time.sleep(0.2)


if __name__ == "__main__":
    main(sys.argv[1])
