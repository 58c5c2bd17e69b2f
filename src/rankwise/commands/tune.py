"""The commands `rankwise tune`, `resume` and `report`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from rankwise.commands.console import (
    DEFAULT_ARCHIVE,
    AsJson,
    InArchive,
    archive_option,
    estimator_names,
    method_names,
    metric_names,
    say,
    show_json,
)

_Report = Annotated[Path | None, typer.Option(help="Write a report to this HTML file.")]
_Timeout = Annotated[float | None, typer.Option(min=0.001, help="Begin no trial after seconds.")]


def tune(
    data: Annotated[Path, typer.Argument(help="A table: CSV, TSV, Parquet or ARFF.")],
    target: Annotated[str | None, typer.Option(help="The column to predict.")] = None,
    estimator: Annotated[
        str,
        typer.Option(
            autocompletion=estimator_names,
            help="What to tune (see rankwise spaces); auto chooses among several.",
        ),
    ] = "auto",
    trials: Annotated[int, typer.Option(min=1, help="Configurations to try, in all.")] = 30,
    metric: Annotated[
        str | None,
        typer.Option(
            autocompletion=metric_names,
            help="A scorer of scikit-learn; by default roc_auc, accuracy or r2.",
        ),
    ] = None,
    archive: Annotated[
        str, archive_option('Where studies are kept and learnt from; "none" for nowhere.')
    ] = DEFAULT_ARCHIVE,
    report: _Report = None,
    name: Annotated[str | None, typer.Option(help="Of the study; one is made up.")] = None,
    task: Annotated[
        str | None, typer.Option(help="classification or regression; by default guessed.")
    ] = None,
    holdout: Annotated[
        float, typer.Option(min=0, max=0.9, help="Share of the rows for the final estimate.")
    ] = 0.2,
    cv: Annotated[int, typer.Option(min=2, help="Folds of the cross-validation.")] = 5,
    rows: Annotated[int, typer.Option(min=10, help="Rows to search on, at most.")] = 20_000,
    method: Annotated[
        str,
        typer.Option(
            autocompletion=method_names, help="What proposes; with options: rgpe:guard=true."
        ),
    ] = "auto",
    compare: Annotated[
        bool, typer.Option("--compare", help="Also run the same without history.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="The same seed repeats the run.")] = 0,
    n_jobs: Annotated[int, typer.Option(help="Fits at the same time; -1: all cores.")] = 1,
    timeout: _Timeout = None,
    as_json: AsJson = False,
) -> None:
    """Tune an estimator for a table of data, and learn from earlier studies.

    The same command again goes on with a study that was interrupted, or shows its result.

    Example: rankwise tune iris.csv --target species --estimator random-forest --report iris.html
    """
    from rankwise.commands.request import Request, file_digest
    from rankwise.errors import OptionError
    from rankwise.tabular import read_table

    if target is None:
        names = ", ".join(map(repr, read_table(data).columns))
        raise OptionError(f"say with --target which column to predict; {data} has {names}")
    request = Request(
        data=str(data),
        digest=file_digest(data) if data.is_file() else "",
        target=target,
        estimator=estimator,
        metric=metric,
        task=task,
        cv=cv,
        holdout=holdout,
        rows=rows,
        seed=seed,
        method=method,
        trials=trials,
        timeout=timeout,
        n_jobs=n_jobs,
        report=None if report is None else str(report),
        compare=compare,
    )
    _run(request, name, archive, as_json)


def resume(
    name: Annotated[str, typer.Argument(help="Of the study.")],
    archive: InArchive = DEFAULT_ARCHIVE,
    trials: Annotated[
        int | None, typer.Option(min=1, help="Configurations to try, in all.")
    ] = None,
    timeout: _Timeout = None,
    report: _Report = None,
    data: Annotated[
        Path | None, typer.Option(help="The table, if it is no longer where it was.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Go on with a study that rankwise tune began, exactly as if it had not stopped.

    Example: rankwise resume iris-random-forest-1a2b3c --trials 60
    """
    from rankwise.commands.places import existing_storage, load_study
    from rankwise.commands.request import COMMAND, Request, file_digest
    from rankwise.errors import StudyMismatchError

    study = load_study(name, existing_storage(archive), archive)
    if COMMAND not in study.user_attrs:
        raise StudyMismatchError(f"study {name!r} was not begun by rankwise tune")
    request = Request.from_json(study.user_attrs[COMMAND])
    path = Path(request.data) if data is None else data
    asked: dict[str, Any] = {
        "data": str(path),
        "digest": file_digest(path) if path.is_file() else request.digest,
        "trials": trials,
        "timeout": timeout,
        "report": None if report is None else str(report),
    }
    given = {key: value for key, value in asked.items() if value is not None}
    _run(replace(request, **given), name, archive, as_json)


def _run(request: Any, name: str | None, archive: str, as_json: bool) -> None:
    from rankwise.commands import outcome, tuning

    tuned = tuning.tune(request, name, archive, progress=None)
    facts = outcome.facts_of(tuned)
    if as_json:
        show_json(facts)
    else:
        outcome.show(facts)
    if tuned.problem:
        say(f"rankwise: {tuned.problem}")
        raise typer.Exit(1)


def report_study(
    name: Annotated[str, typer.Argument(help="Of the study.")],
    archive: InArchive = DEFAULT_ARCHIVE,
    out: Annotated[
        Path | None, typer.Option(help="The HTML file; by default the study's name.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write a study as one HTML page that works without a network.

    A study of the same name with "-without-history" is drawn beside it.

    Example: rankwise report iris-random-forest-1a2b3c --out iris.html
    """
    import re

    from rankwise.commands.places import existing_storage, load_study
    from rankwise.commands.tuning import WITHOUT
    from rankwise.errors import UnknownNameError
    from rankwise.report import write_report

    storage = existing_storage(archive)
    study = load_study(name, storage, archive)
    try:
        baseline = load_study(name + WITHOUT, storage, archive)
    except UnknownNameError:
        baseline = None
    path = out or Path(re.sub(r"[^\w.-]+", "-", name) + ".html")
    written = write_report(study, path, baseline=baseline)
    if as_json:
        show_json({"study": name, "report": str(written)})
    else:
        print(written)
