"""The commands `rankwise tune`, `resume` and `report`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from rankwise.cli.console import (
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
_Save = Annotated[
    Path | None,
    typer.Option(
        help="Fit the best configuration to all rows and save it to this file (model.skops) for "
        "rankwise predict."
    ),
]
_Timeout = Annotated[
    float | None,
    typer.Option(min=0.001, help="Stop starting new trials after this many seconds."),
]
_Header = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header",
        help="Whether the first line of the file has the names of the columns (default: "
        "detected). Without names, columns are named by their index: --target 13.",
    ),
]


def tune(
    data: Annotated[
        Path, typer.Argument(help="The data: a CSV, TSV, Parquet, ARFF or Excel file.")
    ],
    target: Annotated[str | None, typer.Option(help="The column to predict.")] = None,
    estimator: Annotated[
        str,
        typer.Option(
            autocompletion=estimator_names,
            help="The estimator to tune (rankwise spaces lists them); auto tries several.",
        ),
    ] = "auto",
    trials: Annotated[int, typer.Option(min=1, help="Total number of trials.")] = 30,
    metric: Annotated[
        str | None,
        typer.Option(
            autocompletion=metric_names,
            help="A scikit-learn scorer (default: roc_auc for two classes, accuracy for more, "
            "r2 for regression). Several with commas are optimized together; fit_seconds and "
            "score_seconds may be among them: accuracy,fit_seconds.",
        ),
    ] = None,
    choose: Annotated[
        str | None,
        typer.Option(
            help="With several metrics, which configuration of the front to show, fit and save: "
            "the best in this metric (default: the first), or compromise."
        ),
    ] = None,
    archive: Annotated[
        str,
        archive_option(
            'The archive to learn from and to store the study in; "none" uses no archive.'
        ),
    ] = DEFAULT_ARCHIVE,
    past: Annotated[
        str,
        typer.Option(
            help="Learn from: own (the archive), builtin (records that come with the package), "
            "auto (both), none."
        ),
    ] = "auto",
    report: _Report = None,
    save: _Save = None,
    name: Annotated[
        str | None,
        typer.Option(help="Study name (default: derived from the data file and the options)."),
    ] = None,
    task: Annotated[
        str | None,
        typer.Option(help="classification or regression (default: derived from the target)."),
    ] = None,
    holdout: Annotated[
        float,
        typer.Option(
            min=0, max=0.9, help="Fraction of the rows to hold out for the final estimate."
        ),
    ] = 0.2,
    cv: Annotated[int, typer.Option(min=2, help="Number of cross-validation folds.")] = 5,
    rows: Annotated[
        int,
        typer.Option(min=10, help="Use at most this many rows for the search, drawn at random."),
    ] = 20_000,
    method: Annotated[
        str,
        typer.Option(
            autocompletion=method_names,
            help="Optimization method (rankwise methods lists them). Options follow a colon: "
            "rgpe:guard=true.",
        ),
    ] = "auto",
    compare: Annotated[
        bool,
        typer.Option("--compare", help="Also run the same number of trials without past studies."),
    ] = False,
    seed: Annotated[
        int, typer.Option(min=0, help="Random seed; the same seed repeats the run.")
    ] = 0,
    n_jobs: Annotated[int, typer.Option(help="Number of parallel jobs; -1 uses all cores.")] = 1,
    timeout: _Timeout = None,
    header: _Header = None,
    as_json: AsJson = False,
) -> None:
    """Tune an estimator on a table of data, starting from what past studies have shown.

    Running the same command again continues an interrupted study or shows its result.

    Example: rankwise tune iris.csv --target species --estimator random-forest --report iris.html
    """
    from rankwise.cli.tune.request import Request, file_digest
    from rankwise.errors import OptionError, check_name
    from rankwise.tabular import read_table

    if target is None:
        names = ", ".join(map(repr, read_table(data, header=header).columns))
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
        save=None if save is None else str(save),
        header=header,
        past=check_name("past", past, ("auto", "own", "builtin", "none")),
        choose=choose,
    )
    _run(request, name, archive, as_json)


def resume(
    name: Annotated[str, typer.Argument(help="Study name.")],
    archive: InArchive = DEFAULT_ARCHIVE,
    trials: Annotated[
        int | None,
        typer.Option(min=1, help="New total number of trials, including finished ones."),
    ] = None,
    timeout: _Timeout = None,
    report: _Report = None,
    save: _Save = None,
    choose: Annotated[
        str | None, typer.Option(help="As in rankwise tune, for studies with several metrics.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="The data file, if it was moved since the study began.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Continue a study of rankwise tune with the trials that an uninterrupted run would make.

    Example: rankwise resume iris-random-forest-1a2b3c --trials 60
    """
    from rankwise.cli.addresses import existing_storage, load_study
    from rankwise.cli.tune.request import COMMAND, Request, file_digest
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
        "save": None if save is None else str(save),
        "choose": choose,
    }
    given = {key: value for key, value in asked.items() if value is not None}
    _run(replace(request, **given), name, archive, as_json)


def _run(request: Any, name: str | None, archive: str, as_json: bool) -> None:
    from rankwise.cli.tune import outcome
    from rankwise.cli.tune import session as tuning

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
    name: Annotated[str, typer.Argument(help="Study name.")],
    archive: InArchive = DEFAULT_ARCHIVE,
    out: Annotated[
        Path | None, typer.Option(help="The HTML file to write (default: NAME.html).")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write the report of a study: one HTML file that needs no network connection.

    If the archive has a study NAME-without-history, the report compares the two.

    Example: rankwise report iris-random-forest-1a2b3c --out iris.html
    """
    import re

    from rankwise.cli.addresses import existing_storage, load_study
    from rankwise.cli.tune.session import WITHOUT
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
