"""Sets up a search: space, study, past studies, optimizer and loop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import joblib
import numpy as np

from rankwise import methods
from rankwise.archive.past_tasks import past_tasks
from rankwise.archive.sources.optuna_storage import storage_origin
from rankwise.context.data import Context
from rankwise.errors import OptionError
from rankwise.estimators import EstimatorSpace, space_from
from rankwise.estimators.built_in import BuiltinPast, sentence
from rankwise.estimators.parameter_names import kebab, text_of
from rankwise.history.task import TaskSet
from rankwise.integrations.sklearn.chosen_past import chosen_past, find_builtin, tell
from rankwise.integrations.sklearn.dataset import Data
from rankwise.integrations.sklearn.objectives import SECONDS, SearchObjectives, seconds_of
from rankwise.integrations.sklearn.rungs import Folds, Rungs
from rankwise.integrations.sklearn.search_loop import CrossValidation, SearchRun, Setting
from rankwise.integrations.sklearn.search_study import (
    began,
    make_optimizer,
    note_search,
    unique_name,
)
from rankwise.run.loop import settle
from rankwise.run.optimizer import Optimizer, check_seed
from rankwise.run.several import joined
from rankwise.space.encoder import Encoder
from rankwise.storage.locations import model_folder
from rankwise.storage.optuna_private import storage_of
from rankwise.storage.study_facts import attach_context, attach_rows
from rankwise.storage.study_log import StudyLog, storage_errors

if TYPE_CHECKING:
    from rankwise.integrations.sklearn.search_cv import RankwiseSearchCV
    from rankwise.surrogates.empirical_bayes.surrogate import EmpiricalBayes

_DESIGN_PART = 3  # the initial design has at most 1 / _DESIGN_PART of the trials


def make_run(
    search: RankwiseSearchCV, data: Data, splitter: Any, evaluate_candidates: Callable[..., Any]
) -> SearchRun:
    """Open the study, learn from past studies, and restore finished trials.

    Args:
        search: the search.
        data: its data set.
        splitter: a scikit-learn splitter.
        evaluate_candidates: function that scikit-learn passes to a search.
    """
    space = _space(search)
    encoder = Encoder(space.space)
    options = dict(search.options or {})
    methods.check_values(search.method, options)  # before a study is created
    objectives = SearchObjectives.of(search, data)
    if search.pruner is not None and not search.successive:
        raise OptionError("pruner= needs successive=True: without it a trial has a single step")
    log = _open_log(search, data, splitter, space, encoder, objectives)
    context = {} if search.context is None else data.features(rows=search.context == "rows")
    if context:
        with storage_errors(search.archive, "write"):
            attach_context(log.study, dict(context))
            place = storage_origin(storage_of(log.study))
            if isinstance(context, Context) and model_folder(place) is not None:
                attach_rows(place, log.study.study_name, context)
    seed = settle(log, "seed", *_seeds(search.random_state))
    settle(log, "method", search.method)
    settle(log, "options", {key: repr(value) for key, value in options.items()})
    n_jobs = settle(log, "n_jobs", joblib.effective_n_jobs(search.n_jobs))
    chosen = chosen_past(search, log)
    pasts = {
        metric: _past(search, log, space, encoder, chosen, metric)
        for metric in objectives.scores or [_metric(search, data)]
    }
    own, builtin, past, _ = first = next(iter(pasts.values()))

    def make(past: TaskSet, known: EmpiricalBayes | None = None) -> Optimizer:
        return make_optimizer(search.method, log, encoder, past, search.progress, options, known)

    if objectives.several:
        timed = seconds_of(past)
        each = [(timed, None) if name in SECONDS else pasts[name][2:] for name in objectives.names]
        settle(log, "past tasks", "+".join(part.digest for part, _ in each))
        learnt = joined([make(*part) for part in each])
    else:
        settle(log, "past tasks", past.digest)
        learnt = make(*first[2:])
    optimizer = learnt.restarted(design=_design(search, log, space, learnt), seed=seed)
    optimizer.context = context
    rungs = Rungs.of(data.n_rows, data.classes, several=search.successive)
    setting = Setting(
        space,
        rungs,
        rungs.splitters(Folds(splitter), data.labels, seed),
        search.refit,
        search.error_score,
        objectives,
        search.pruner is not None,
    )
    if search.pruner is not None:
        log.study.pruner = search.pruner
    evaluator = CrossValidation(evaluate_candidates, n_jobs, setting, log)
    informed = optimizer.strategy.informed
    run = SearchRun(
        optimizer, evaluator, log, _callbacks(search), [t.name for t in own.tasks if informed]
    )
    if informed:
        run.past_text = sentence(builtin, len(own.tasks))
        run.builtin = [t.name for t in builtin.tasks] if builtin is not None else []
        tell(search, run.past_text)
    return run


def _metric(search: RankwiseSearchCV, data: Data) -> str:
    """The name of the metric of a search with one objective; of several metrics the optimized."""
    if isinstance(search.refit, str):
        return search.refit
    return data.scoring_name(search.scoring).partition(",")[0]


def _past(
    search: RankwiseSearchCV,
    log: StudyLog,
    space: EstimatorSpace,
    encoder: Encoder,
    chosen: str,
    metric: str,
) -> tuple[TaskSet, BuiltinPast | None, TaskSet, EmpiricalBayes | None]:
    """The user's own past studies for a metric, the built-in ones, both, and what is learnt."""
    own = TaskSet((), (), encoder.fingerprint)
    if chosen in ("auto", "own"):
        own = past_tasks(
            storage_of(log.study),
            encoder,
            before=began(log),
            exclude=[log.study.study_name],
            metric=metric,
        )
    builtin = None
    wanted = chosen == "builtin" or (
        chosen == "auto" and not _only_own_have_rows(search.method, own)
    )
    if wanted and methods.get(search.method).transfer:
        builtin = find_builtin(search, metric, space, encoder)
    if builtin is None:
        return own, None, own, None
    past = replace(own, tasks=(*own.tasks, *builtin.tasks))
    return own, builtin, past, builtin.surrogate


def _only_own_have_rows(method: str, own: TaskSet) -> bool:
    """True if a method compares the rows of data sets, and all of the user's studies have them.

    Built-in studies have no rows. With them, the method could compare meta-features only.
    """
    if methods.get(method).family != "data-sets" or not own.everything:
        return False
    return all(getattr(task.context, "rows", None) is not None for task in own.everything)


def _space(search: RankwiseSearchCV) -> EstimatorSpace:
    if isinstance(search.space, EstimatorSpace):
        return search.space
    return space_from(search.estimator, search.space)


def _open_log(
    search: RankwiseSearchCV,
    data: Data,
    splitter: Any,
    space: EstimatorSpace,
    encoder: Encoder,
    objectives: SearchObjectives,
) -> StudyLog:
    n_splits = splitter.get_n_splits(data.X, data.y, **data.split_params)
    label = space.name or kebab(type(search.estimator).__name__)
    name = search.name or unique_name(label, data.digest)
    directions = objectives.directions
    log = StudyLog(
        encoder,
        storage=search.archive,
        name=name,
        direction=directions.each,
        metrics=directions.names,
    )
    facts: dict[str, Any] = {"estimator": text_of(search.estimator), "space": space.name}
    if objectives.several:
        facts["objectives"] = list(objectives.names)
    note_search(
        log, {**facts, "successive": search.successive, **data.facts(search.scoring, n_splits)}
    )
    return log


def _design(
    search: RankwiseSearchCV, log: StudyLog, space: EstimatorSpace, learnt: Optimizer
) -> str | None:
    """The initial design without past studies; a ready-made space starts with its default.

    It has at most a third of the trials. A search that is resumed with more trials keeps its
    design.
    """
    own = learnt.strategy.design
    if own is None:
        return None
    size = min(own.n(learnt.encoder), max(1, search.n_trials // _DESIGN_PART))
    chosen: str = settle(log, "design", None, f"{'default' if space.name else own.kind}-{size}")
    return chosen


def _seeds(random_state: Any) -> tuple[int | None, int]:
    """The seed that the user asked for, or None, and the seed to use."""
    if isinstance(random_state, np.random.RandomState):
        return None, int(random_state.randint(2**31 - 1))
    return random_state, check_seed(random_state)


def _callbacks(search: RankwiseSearchCV) -> list[Any]:
    if search.callbacks is None:
        return []
    return [search.callbacks] if callable(search.callbacks) else list(search.callbacks)
