"""The search behind `rankwise tune` and `rankwise resume`: begun, gone on with, and ended."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rankwise import methods
from rankwise.commands.console import DEFAULT_ARCHIVE, Interrupted, say
from rankwise.commands.places import storage_at
from rankwise.commands.plan import Plan, prepare, threads_for
from rankwise.commands.request import COMMAND, Request
from rankwise.errors import RankwiseError
from rankwise.study import quiet_optuna, storage_errors, without_password

if TYPE_CHECKING:
    import optuna
    from optuna.storages import BaseStorage

    from rankwise.search import RankwiseSearchCV

WITHOUT = "-without-history"
"""What the name of a study that does not know the past ends with."""
_ALONE = "mbo"  # what "auto" is without a past


class TuningError(RankwiseError):
    """A search ended without a result."""


@dataclass(frozen=True)
class Tuned:
    """What a search came to.

    Attributes:
        plan: that it had.
        name: of its study.
        address: of its archive.
        search: fitted.
        compared: the search without history, if it was wanted and there is a history.
        report: the file of the report, if one was wanted and could be written.
        problem: why it could not be written; "" if it was.
    """

    plan: Plan
    name: str
    address: str
    search: RankwiseSearchCV
    compared: RankwiseSearchCV | None
    report: Path | None
    problem: str


def tune(request: Request, name: str | None, address: str, progress: bool | None) -> Tuned:
    """Run a request, or go on with the study of its name.

    Args:
        request: what to do.
        name: of the study; None for the one that the request has by itself.
        address: of the archive, or "none".
        progress: show bars; None: if standard error is a terminal.

    Raises:
        Interrupted: by Ctrl-C; what was evaluated is in the archive.
        RankwiseError: anything that is wrong with the request, the data or the archive.
    """
    plan = prepare(request)
    storage, name = storage_at(address), name or request.name
    before = _begin(request, name, storage, address)
    _announce(plan, name, address, before)
    try:
        search = _search(plan, name, storage, request.method, progress)
        compared = None
        if request.compare:
            compared = _compare(plan, name, storage, search, progress)
    except KeyboardInterrupt:
        raise Interrupted(_kept(plan, name, storage, address)) from None
    except ValueError as error:
        if isinstance(error, RankwiseError):
            raise
        raise TuningError(f"the search failed: {str(error).strip().splitlines()[-1]}") from error
    return Tuned(plan, name, address, search, compared, *_report(plan, search, compared))


def resume_command(name: str, address: str, more: str = "") -> str:
    """What to type to go on with a study."""
    where = "" if address == DEFAULT_ARCHIVE else f" --archive {shlex.quote(address)}"
    return f"rankwise resume {shlex.quote(name)}{where}{more}"


def _begin(request: Request, name: str, storage: str | BaseStorage | None, address: str) -> int:
    """Make the study or check the one that is there; the number of trials that it has."""
    if storage is None:
        return 0
    import optuna

    shown = without_password(address)
    with quiet_optuna(), storage_errors(shown, "open"):
        study = optuna.create_study(
            storage=storage, study_name=name, direction="maximize", load_if_exists=True
        )
        request.check_same(study.user_attrs, name)
    with storage_errors(shown, "write"):
        if study.user_attrs.get(COMMAND) != request.to_json():
            study.set_user_attr(COMMAND, request.to_json())
    return _finished(study)


def _finished(study: optuna.Study) -> int:
    return sum(trial.state.is_finished() for trial in study.get_trials(deepcopy=False))


def _announce(plan: Plan, name: str, address: str, before: int) -> None:
    problem, request = plan.problem, plan.request
    classes = "" if problem.classes is None else f" with {len(problem.classes)} classes"
    say(
        f"{Path(request.data).name}: {len(problem)} rows, {problem.X.shape[1]} columns; "
        f"{problem.kind} of {problem.target!r}{classes} by {' or '.join(plan.estimators)}"
    )
    for note in plan.notes:
        say(f"note: {note}")
    held = 0 if plan.held is None else len(plan.held)
    say(
        f"{len(plan.train)} rows are searched on in {plan.folds.get_n_splits()} folds for "
        f"{plan.metric}, {held} held out for the estimate at the end"
    )
    if address == "none":
        say("no archive: nothing is recorded, and nothing learnt from earlier studies")
        return
    other = " (another one: --archive or RANKWISE_ARCHIVE)" if address == DEFAULT_ARCHIVE else ""
    say(f"archive {without_password(address)}{other}")
    if before >= request.trials:
        say(f"study {name} has its {before} trials already: --trials with more goes on")
    elif before:
        say(f"study {name} goes on after {before} of {request.trials} trials")
    else:
        say(f"study {name} begins")


def _search(
    plan: Plan,
    name: str,
    storage: str | BaseStorage | None,
    method: str,
    progress: bool | None,
    *,
    refit: bool = True,
) -> RankwiseSearchCV:
    from rankwise.search import RankwiseSearchCV

    request, pipelines = plan.request, list(plan.estimators.values())
    method, options = methods.split(method)
    search = RankwiseSearchCV(
        pipelines if len(pipelines) > 1 else pipelines[0],
        n_trials=request.trials,
        scoring=plan.metric,
        cv=plan.folds,
        refit=refit,
        n_jobs=request.n_jobs,
        archive=storage,
        method=method,
        options=options,
        name=name,
        random_state=request.seed,
        timeout=request.timeout,
        progress=progress,
    )
    with threads_for(len(plan.train)):
        return search.fit(plan.train.X, plan.train.y)


def _compare(
    plan: Plan,
    name: str,
    storage: str | BaseStorage | None,
    search: RankwiseSearchCV,
    progress: bool | None,
) -> RankwiseSearchCV | None:
    """The same budget by a method that does not know the past."""
    if not search.past_:
        say("note: there are no earlier studies of this space yet: nothing to compare with.")
        return None
    say("the same without history, for comparison")
    return _search(plan, name + WITHOUT, storage, _ALONE, progress, refit=False)


def _report(
    plan: Plan, search: RankwiseSearchCV, compared: RankwiseSearchCV | None
) -> tuple[Path | None, str]:
    """The file of the report, and what was wrong with it: a result is not lost for that."""
    if plan.request.report is None:
        return None, ""
    from rankwise.report import write_report

    baseline = None if compared is None else compared.result_
    try:
        return write_report(search.result_, plan.request.report, baseline=baseline), ""
    except RankwiseError as error:
        return None, str(error)


def _kept(plan: Plan, name: str, storage: str | BaseStorage | None, address: str) -> str:
    """What there is after an interruption, and how to go on."""
    if storage is None:
        return "interrupted; nothing is kept, as there is no archive"
    import optuna

    with quiet_optuna(), storage_errors(without_password(address), "read"):
        n = _finished(optuna.load_study(study_name=name, storage=storage))
    return (
        f"interrupted; {n} of {plan.request.trials} trials are kept in "
        f"{without_password(address)}. Go on: {resume_command(name, address)}"
    )
