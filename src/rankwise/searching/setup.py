"""From the arguments of a search to its loop: the space, the study, the past, the optimizer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import joblib
import numpy as np

from rankwise import methods
from rankwise.archive.context import attach_context, attach_rows
from rankwise.archive.optuna_storage import storage_origin
from rankwise.archive.places import model_folder
from rankwise.context.data import Context
from rankwise.learners import EstimatorSpace, space_from
from rankwise.learners.names import kebab, text_of
from rankwise.loop import settle
from rankwise.optimizer import Optimizer, check_seed
from rankwise.searching.data import Data
from rankwise.searching.record import (
    DIRECTION,
    make_optimizer,
    note_search,
    past_tasks,
    unique_name,
)
from rankwise.searching.run import CrossValidation, SearchRun, Setting
from rankwise.searching.rungs import Folds, Rungs
from rankwise.space import Encoder
from rankwise.study import StudyLog, storage_errors

if TYPE_CHECKING:
    from rankwise.search import RankwiseSearchCV

_DESIGN_PART = 3  # one in so many trials is of the design, at most


def make_run(
    search: RankwiseSearchCV, data: Data, splitter: Any, evaluate_candidates: Callable[..., Any]
) -> SearchRun:
    """Open the study, learn from the past, and take over what the study has already.

    Args:
        search: whose arguments count.
        data: to be fitted.
        splitter: of scikit-learn.
        evaluate_candidates: as scikit-learn gives it to a search.
    """
    space = _space(search)
    encoder = Encoder(space.space)
    options = dict(search.options or {})
    methods.check_values(search.method, options)  # before a study is created
    log = _open_log(search, data, splitter, space, encoder)
    context = {} if search.context is None else data.features(rows=search.context == "rows")
    if context:
        with storage_errors(search.archive, "write"):
            attach_context(log.study, dict(context))
            place = storage_origin(log.study._storage)
            if isinstance(context, Context) and model_folder(place) is not None:
                attach_rows(place, log.study.study_name, context)
    seed = settle(log, "seed", *_seeds(search.random_state))
    settle(log, "method", search.method)
    settle(log, "options", {key: repr(value) for key, value in options.items()})
    n_jobs = settle(log, "n_jobs", joblib.effective_n_jobs(search.n_jobs))
    past = past_tasks(log, encoder)
    settle(log, "past tasks", past.digest)
    learnt = make_optimizer(search.method, log, encoder, past, search.progress, options)
    optimizer = learnt.restarted(design=_design(search, log, space, learnt), seed=seed)
    optimizer.context = context
    rungs = Rungs.of(data.n_rows, data.classes, several=search.successive)
    setting = Setting(
        space,
        rungs,
        rungs.splitters(Folds(splitter), data.labels, seed),
        search.refit,
        search.error_score,
    )
    evaluator = CrossValidation(evaluate_candidates, n_jobs, setting, log)
    used = [t.name for t in past.tasks] if optimizer.strategy.informed else []
    return SearchRun(optimizer, evaluator, log, _callbacks(search), used)


def _space(search: RankwiseSearchCV) -> EstimatorSpace:
    if isinstance(search.space, EstimatorSpace):
        return search.space
    return space_from(search.estimator, search.space)


def _open_log(
    search: RankwiseSearchCV, data: Data, splitter: Any, space: EstimatorSpace, encoder: Encoder
) -> StudyLog:
    n_splits = splitter.get_n_splits(data.X, data.y, **data.split_params)
    label = space.name or kebab(type(search.estimator).__name__)
    name = search.name or unique_name(label, data.digest)
    log = StudyLog(encoder, storage=search.archive, name=name, direction=DIRECTION)
    facts = {"estimator": text_of(search.estimator), "space": space.name}
    note_search(
        log, {**facts, "successive": search.successive, **data.facts(search.scoring, n_splits)}
    )
    return log


def _design(
    search: RankwiseSearchCV, log: StudyLog, space: EstimatorSpace, learnt: Optimizer
) -> str | None:
    """What is evaluated first where there is no past; of a ready-made space first the default.

    It takes no more than a third of the trials, so that the model has the rest. A search that is
    resumed with more trials keeps the design that it began with.
    """
    own = learnt.strategy.design
    if own is None:
        return None
    size = min(own.n(learnt.encoder), max(1, search.n_trials // _DESIGN_PART))
    chosen: str = settle(log, "design", None, f"{'default' if space.name else own.kind}-{size}")
    return chosen


def _seeds(random_state: Any) -> tuple[int | None, int]:
    """The seed that is asked for, None if any will do, and the one to take if it may be any."""
    if isinstance(random_state, np.random.RandomState):
        return None, int(random_state.randint(2**31 - 1))
    return random_state, check_seed(random_state)


def _callbacks(search: RankwiseSearchCV) -> list[Any]:
    if search.callbacks is None:
        return []
    return [search.callbacks] if callable(search.callbacks) else list(search.callbacks)
