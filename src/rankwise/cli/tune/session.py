"""The search behind `rankwise tune` and `rankwise resume`, with its study in the archive."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankwise import methods
from rankwise._core.words import count
from rankwise.cli.addresses import existing_storage, load_study, storage_at
from rankwise.cli.console import DEFAULT_ARCHIVE, NOWHERE, Interrupted, say
from rankwise.cli.tune.plan import Plan, prepare, threads_for
from rankwise.cli.tune.request import COMMAND, COMMAND_LINE, Request
from rankwise.cli.tune.saved_model import check_save, save_model
from rankwise.errors import RankwiseError
from rankwise.storage.study_facts import TWIN
from rankwise.storage.study_log import quiet_optuna, storage_errors, without_password

if TYPE_CHECKING:
    import optuna
    from optuna.storages import BaseStorage

    from rankwise.integrations.sklearn.search_cv import RankwiseSearchCV

WITHOUT = "-without-history"
"""Suffix of the name of a comparison study that does not use past studies."""
_ALONE = "mbo"  # the method that "auto" uses if there are no past studies


class TuningError(RankwiseError):
    """A search ended without a result."""


@dataclass(frozen=True)
class Tuned:
    """The result of a search.

    Attributes:
        plan: data, estimators, metric and folds of the search.
        name: study name.
        address: the archive.
        search: the fitted search.
        compared: the search without past studies; None without --compare or past studies.
        report: path of the report; None if none was requested or it could not be written.
        model: path of the saved model; None if none was requested or it could not be written.
        problem: why the report or the model could not be written; "" if there was no problem.
    """

    plan: Plan
    name: str
    address: str
    search: RankwiseSearchCV
    compared: RankwiseSearchCV | None
    report: Path | None
    model: Path | None
    problem: str


def tune(request: Request, name: str | None, address: str, progress: bool | None) -> Tuned:
    """Start a study or continue the stored study of the same name.

    Args:
        request: the options of `rankwise tune`.
        name: study name; None for `request.name`.
        address: the archive, or "none".
        progress: show progress bars; None: only if standard error is a terminal. Without them
            there is a line every 30 seconds.

    Raises:
        Interrupted: after Ctrl-C; finished trials are in the archive.
        RankwiseError: the request, the data or the archive cannot be used.
    """
    check_save(request.save)
    plan = prepare(request)
    storage, name = storage_at(address), name or request.name
    before = _begin(plan, name, storage, address)
    _announce(plan, name, address, before)
    try:
        search = _search(plan, name, storage, request.method, progress)
        if not search.past_:
            _mention_others(name, storage)
        compared = None
        if request.compare:
            compared = _compare(plan, name, storage, search, progress)
    except KeyboardInterrupt:
        raise Interrupted(_kept(plan, name, storage, address)) from None
    except ValueError as error:
        if isinstance(error, RankwiseError):
            raise
        raise TuningError(f"the search failed: {str(error).strip().splitlines()[-1]}") from error
    report, unwritten = _report(plan, search, compared, name, address)
    model, unsaved = _save(plan, search)
    problem = "; ".join(filter(None, (unwritten, unsaved)))
    return Tuned(plan, name, address, search, compared, report, model, problem)


def resume_command(name: str, address: str, more: str = "") -> str:
    """The shell command that continues a study."""
    where = "" if address == DEFAULT_ARCHIVE else f" --archive {shlex.quote(address)}"
    return f"rankwise resume {shlex.quote(name)}{where}{more}"


def _begin(plan: Plan, name: str, storage: str | BaseStorage | None, address: str) -> int:
    """Create the study or check the stored one; returns its number of finished trials."""
    if storage is None:
        return 0
    request = plan.request
    import optuna

    shown = without_password(address)
    with quiet_optuna(), storage_errors(shown, "open"):
        study = optuna.create_study(
            storage=storage,
            study_name=name,
            directions=[optuna.study.StudyDirection[one.upper()] for one in plan.directions],
            load_if_exists=True,
        )
        request.check_same(study.user_attrs, name)
    with storage_errors(shown, "write"):
        if study.user_attrs.get(COMMAND) != request.to_json():
            study.set_user_attr(COMMAND, request.to_json())
        if COMMAND_LINE not in study.user_attrs:
            where = None if address == DEFAULT_ARCHIVE else shown
            study.set_user_attr(COMMAND_LINE, request.command_line(name, where))
    return _finished(study)


def _finished(study: optuna.Study) -> int:
    return sum(trial.state.is_finished() for trial in study.get_trials(deepcopy=False))


def _announce(plan: Plan, name: str, address: str, before: int) -> None:
    """Print what will be searched, on which data, and where it is stored."""
    problem, request = plan.problem, plan.request
    metrics = " and ".join(plan.objectives or (plan.metric,))
    classes = "" if problem.classes is None else f" with {len(problem.classes)} classes"
    say(
        f"{Path(request.data).name}: {count(len(problem), 'row')}, "
        f"{count(problem.X.shape[1], 'column')}; "
        f"{problem.kind} of {problem.target!r}{classes} by {' or '.join(plan.estimators)}"
    )
    for note in plan.notes:
        say(f"note: {note}")
    held = 0 if plan.held is None else len(plan.held)
    say(
        f"search: {len(plan.train)} rows, {plan.folds.get_n_splits()} folds, metric "
        f"{metrics}; {held} rows are held out for the final estimate"
    )
    if address == "none":
        say("no archive: the study is not stored and your own past studies are not used")
        return
    other = " (change it with --archive or RANKWISE_ARCHIVE)" if address == DEFAULT_ARCHIVE else ""
    say(f"archive: {without_password(address)}{other}")
    if before >= request.trials:
        say(f"study {name} already has its {before} trials; a larger --trials continues it")
    elif before:
        say(f"study {name} continues after {before} of {request.trials} trials")
    else:
        say(f"study {name} starts")


def _search(
    plan: Plan,
    name: str,
    storage: str | BaseStorage | None,
    method: str,
    progress: bool | None,
    *,
    refit: bool = True,
) -> RankwiseSearchCV:
    from rankwise.integrations.sklearn.search_cv import RankwiseSearchCV
    from rankwise.run.display import Lines

    request, pipelines = plan.request, list(plan.estimators.values())
    bars = sys.stderr.isatty() if progress is None else progress
    method, options = methods.split(method)
    search = RankwiseSearchCV(
        pipelines if len(pipelines) > 1 else pipelines[0],
        n_trials=request.trials,
        scoring=plan.scores if len(plan.scores) > 1 else plan.metric,
        objectives=plan.objectives or None,
        choose=plan.choose,
        cv=plan.folds,
        refit=plan.metric if refit and len(plan.scores) > 1 else refit,
        n_jobs=request.n_jobs,
        archive=storage,
        past=None if request.past == "none" else request.past,
        method=method,
        options=options,
        name=name,
        random_state=request.seed,
        timeout=request.timeout,
        callbacks=None if bars else Lines(request.trials, say),
        progress=progress,
    )
    with threads_for(len(plan.train)):
        return search.fit(plan.train.X, plan.train.y)


def _mention_others(name: str, storage: str | BaseStorage | None) -> None:
    """Say that the archive has studies that were not used because their space is another one."""
    if storage is None:
        return
    import optuna

    with quiet_optuna():
        names = set(optuna.get_all_study_names(storage)) - {name, name + WITHOUT}
    if names:
        n = count(len(names), "other study", "other studies")
        say(f"note: the archive has {n}, none of this search space: nothing was learnt from them")


def _compare(
    plan: Plan,
    name: str,
    storage: str | BaseStorage | None,
    search: RankwiseSearchCV,
    progress: bool | None,
) -> RankwiseSearchCV | None:
    """The same number of trials without past studies; None if the search used none."""
    if not search.past_ and not search.builtin_:
        say("note: there are no past studies of this search space yet: nothing to compare with.")
        return None
    say("for comparison: the same search without past studies")
    if storage is not None:
        import optuna

        with quiet_optuna():
            twin = optuna.create_study(
                storage=storage,
                study_name=name + WITHOUT,
                direction="maximize",
                load_if_exists=True,
            )
            twin.set_user_attr(TWIN, name)
    return _search(plan, name + WITHOUT, storage, _ALONE, progress, refit=False)


def _report(
    plan: Plan,
    search: RankwiseSearchCV,
    compared: RankwiseSearchCV | None,
    name: str,
    address: str,
) -> tuple[Path | None, str]:
    """Write the report of the stored study; returns its path and "", or None and what is wrong.

    An error does not end the command: the result of the search is still printed.
    """
    if plan.request.report is None:
        return None, ""
    from rankwise.report import write_report

    study: Any = search.result_
    baseline: Any = None if compared is None else compared.result_
    try:
        if address != NOWHERE:
            storage = existing_storage(address)
            study = load_study(name, storage, address)
            baseline = None if compared is None else load_study(name + WITHOUT, storage, address)
        return write_report(study, plan.request.report, baseline=baseline), ""
    except RankwiseError as error:
        return None, str(error)


def _save(plan: Plan, search: RankwiseSearchCV) -> tuple[Path | None, str]:
    """Save the model; returns its path and "", or None and why it could not be saved."""
    if plan.request.save is None:
        return None, ""
    try:
        return save_model(plan, search.best_estimator_, plan.request.save), ""
    except RankwiseError as error:
        return None, str(error)


def _kept(plan: Plan, name: str, storage: str | BaseStorage | None, address: str) -> str:
    """The message after Ctrl-C: how many trials are stored and how to continue."""
    if storage is None:
        return "interrupted; nothing is kept because no archive is used"
    import optuna

    with quiet_optuna(), storage_errors(without_password(address), "read"):
        n = _finished(optuna.load_study(study_name=name, storage=storage))
    return (
        f"interrupted; {n} of {plan.request.trials} trials are kept in "
        f"{without_password(address)}. Continue with: {resume_command(name, address)}"
    )
