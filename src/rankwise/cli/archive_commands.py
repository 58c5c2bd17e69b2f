"""The commands `rankwise archive ls`, `show`, `describe`, `import`, `export` and `forget`."""

from __future__ import annotations

import glob
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankwise._core.words import count
from rankwise.cli.console import (
    DEFAULT_ARCHIVE,
    AsJson,
    InArchive,
    say,
    show_json,
    show_table,
)

if TYPE_CHECKING:
    from rankwise.archive import Archive, PastStudy

app = typer.Typer(
    help="List, show, import, export and delete past studies.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)

_Like = Annotated[
    str, typer.Option(help='Only studies whose name matches this pattern, such as "xgb-*".')
]
_Name = Annotated[str, typer.Argument(help="Study name.")]
_Direction = Annotated[
    str | None,
    typer.Option(help="minimize or maximize. Needed for tables and runs, which do not store it."),
]
_Metric = Annotated[
    str | None,
    typer.Option(help="For tables and runs: the column or the logged metric of the values."),
]
_Experiment = Annotated[
    str, typer.Option(help='For MLflow: only experiments like this pattern, such as "xgb*".')
]
_Study = Annotated[
    str | None, typer.Option(help="For tables: the column that holds the study's name.")
]
_Parameters = Annotated[
    str,
    typer.Option(help="For tables and runs: the only hyperparameters, separated by commas."),
]
_Ignore = Annotated[
    str,
    typer.Option(help="For tables and runs: columns to skip, separated by commas."),
]
_Rename = Annotated[
    list[str] | None,
    typer.Option(
        help="Parameter under another name: eta=learning_rate, or a JSON file. Repeat it for more."
    ),
]
_Known = Annotated[
    list[str] | None,
    typer.Option(
        help="Constant value that studies do not record: epochs=5, or a JSON file. Repeat it for "
        "more."
    ),
]
_BEST = 10  # trials that `show` lists


@app.command("ls")
def list_studies(
    archive: InArchive = DEFAULT_ARCHIVE,
    like: _Like = "*",
    direction: _Direction = None,
    metric: _Metric = None,
    experiment: _Experiment = "*",
    as_json: AsJson = False,
) -> None:
    """List the studies of an archive.

    Example: rankwise archive ls --archive sqlite:///rankwise.db --like "iris-*"
    """
    from rankwise.archive.merge_distributions import not_unified

    past = _open(archive, like=like, direction=direction, metric=metric, experiment=experiment)
    rows = [_facts(study) for study in past.studies]
    odd = not_unified(past.studies)
    if as_json:
        rows = [{**row, "not_unified": odd.get(row["name"])} for row in rows]
        show_json([*rows, *({"name": n, "left_out": why} for n, why in past.left_out.items())])
        return
    table = [(r["name"], r["started"], r["direction"], r["trials"], r["best"]) for r in rows]
    table += [(name, None, None, None, None) for name in past.left_out]
    show_table(("study", "began", "direction", "trials", "best"), table, numbers=2)
    for name, why in past.left_out.items():
        say(f"not used: {name}: {why}")
    for name, why in odd.items():
        say(f"{name}: {why}")


@app.command("show")
def show_study(
    name: _Name,
    archive: InArchive = DEFAULT_ARCHIVE,
    direction: _Direction = None,
    metric: _Metric = None,
    as_json: AsJson = False,
) -> None:
    """Show one study: its search space, facts about its data set, and its best trials.

    Example: rankwise archive show iris-random-forest-1a2b3c
    """
    study = _one(name, archive, direction=direction, metric=metric)
    facts = {**_facts(study), "parameters": _parameters(study), "context": dict(study.context)}
    trials = [
        {"value": value, "status": status, "seconds": seconds, "params": dict(params)}
        for value, status, seconds, params in zip(
            study.values, study.status, study.seconds, study.params, strict=True
        )
    ]
    if as_json:
        show_json({**facts, "all_trials": trials})
        return
    began = f"; began {facts['started']}" if facts["started"] else ""
    print(
        f"{name}: {count(len(study), 'trial')}, {study.direction}, best {facts['best']:.6g}{began}"
    )
    show_table(("parameter", "range"), list(facts["parameters"].items()))
    if study.context:
        show_table(("data set", ""), sorted(study.context.items()))
    names = list(study.distributions)
    best = [trials[k] for k in study.ranking if trials[k]["status"] == "ok"]
    rows = [[float(t["value"]), *(t["params"].get(p) for p in names)] for t in best[:_BEST]]
    show_table(("value", *names), rows, title=f"the best {count(len(rows), 'trial')}")


@app.command("describe")
def describe(
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="[ARCHIVE]", help="The archive: a storage URL, a file or a folder."
        ),
    ] = None,
    archive: InArchive = DEFAULT_ARCHIVE,
    like: _Like = "*",
    direction: _Direction = None,
    metric: _Metric = None,
    experiment: _Experiment = "*",
    study: _Study = None,
    parameters: _Parameters = "",
    ignore: _Ignore = "",
    rename: _Rename = None,
    known: _Known = None,
    half_life: Annotated[
        str,
        typer.Option(
            help="Days after which the weight of a study is halved; auto learns them, none is no "
            "ageing."
        ),
    ] = "auto",
    as_json: AsJson = False,
) -> None:
    """Describe an archive: the search space its studies share and how well their ranks agree.

    Example: rankwise archive describe trials.csv --direction minimize
    """
    from rankwise.cli.console import visible

    description = _open(
        source or archive,
        like=like,
        direction=direction,
        metric=metric,
        experiment=experiment,
        study=study,
        parameters=_names(parameters),
        ignore=_names(ignore),
        rename=_pairs("--rename", rename),
        known=_pairs("--known", known, _value),
        half_life=_half_life(half_life),
    ).describe()
    if as_json:
        show_json(description.to_dict())
    else:
        print(visible(str(description)))


@app.command("import")
def import_studies(
    source: Annotated[
        str,
        typer.Argument(
            help="Where to read studies: an Optuna storage URL or file, a table (CSV, JSONL or "
            "Parquet), HPO-B data, or any other source (see the documentation)."
        ),
    ],
    archive: InArchive = DEFAULT_ARCHIVE,
    like: _Like = "*",
    prefix: Annotated[str, typer.Option(help="Text to put before each study's name.")] = "",
    direction: _Direction = None,
    metric: _Metric = None,
    value: Annotated[str | None, typer.Option(help="Former name of --metric.")] = None,
    experiment: _Experiment = "*",
    study: _Study = None,
    parameters: _Parameters = "",
    ignore: _Ignore = "",
    rename: _Rename = None,
    known: _Known = None,
    space: Annotated[
        str | None, typer.Option(help="For HPO-B data: the search space to import.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Copy studies into an archive. Studies that are already there are not copied again.

    Example: rankwise archive import trials.csv --direction maximize --archive sqlite:///rankwise.db
    """
    from rankwise.cli.archive_transfer import studies_of, write_studies

    found, notes = studies_of(
        source,
        like=like,
        direction=direction,
        space=space,
        metric=metric if metric is not None else value,
        experiment=experiment,
        study=study,
        parameters=_names(parameters),
        ignore=_names(ignore),
        rename=_pairs("--rename", rename),
        known=_pairs("--known", known, _value),
    )
    for note in notes:
        say(f"rankwise: {note}")
    done = write_studies(found, archive, prefix)
    if as_json:
        show_json(done)
    else:
        show_table(("study", "trials", "outcome"), [tuple(row.values()) for row in done])
    if any(row["done"].startswith("refused") for row in done):
        say("rankwise: some studies were not imported; use --prefix to give them other names")
        raise typer.Exit(1)


@app.command("export")
def export_studies(
    out: Annotated[Path, typer.Argument(help="The file to write: .csv or .jsonl.")],
    archive: InArchive = DEFAULT_ARCHIVE,
    like: _Like = "*",
    as_json: AsJson = False,
) -> None:
    """Write studies to one table with a row per trial and a column per parameter.

    A second file beside it has ranges, directions and facts, so that archive import restores the
    studies exactly. Keep the two together.

    Example: rankwise archive export trials.csv --like "iris-*"
    """
    from rankwise.cli.archive_transfer import copies_of, write_table

    past = _open(archive, like=like)
    facts = write_table(past, out, copies_of(past, archive, like))
    if as_json:
        show_json(facts)
        return
    trials, studies = count(facts["rows"], "trial"), count(facts["studies"], "study")
    print(f"{trials} of {studies} are in {out}; {facts['beside']} has what a table cannot hold")
    print(f"to import it: {facts['import']}")


@app.command("forget")
def forget(
    names: Annotated[list[str], typer.Argument(help="Names of the studies to delete.")],
    archive: InArchive = DEFAULT_ARCHIVE,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Delete without asking for confirmation.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Delete studies from an archive. This cannot be undone.

    Example: rankwise archive forget iris-random-forest-1a2b3c --yes
    """
    import optuna

    from rankwise.cli.addresses import existing_storage, load_study
    from rankwise.errors import OptionError
    from rankwise.storage.study_log import quiet_optuna, storage_errors, without_password

    storage = existing_storage(archive)
    studies = [load_study(name, storage, archive) for name in dict.fromkeys(names)]
    n = sum(len(study.get_trials(deepcopy=False)) for study in studies)
    trials = count(n, "trial")
    what = (
        f"{len(studies)} studies with {trials}"
        if len(studies) > 1
        else f"study {studies[0].study_name!r} with {trials}"
    )
    if not yes:
        if not sys.stdin.isatty():
            raise OptionError("cannot ask for confirmation without a terminal; use --yes")
        typer.confirm(f"Delete {what} from {without_password(archive)}?", abort=True, err=True)
    with quiet_optuna(), storage_errors(without_password(archive), "write"):
        for study in studies:
            optuna.delete_study(study_name=study.study_name, storage=storage)
    if as_json:
        show_json({"forgotten": [study.study_name for study in studies], "trials": n})
    else:
        print(f"deleted {what}")


# ---------------------------------------------------------------------- helpers


def _open(archive: str, **options: Any) -> Archive:
    from rankwise.archive import open_archive

    return open_archive(archive, **options)


def _pairs(
    option: str, given: list[str] | None, parse: Callable[[str], Any] = str
) -> dict[str, Any]:
    """The pairs "name=value" of an option, and those of JSON files."""
    from rankwise.archive.names import named_values
    from rankwise.errors import OptionError

    found: dict[str, Any] = {}
    for text in given or ():
        name, equals, value = text.partition("=")
        if not equals and Path(text).is_file():
            found.update(named_values(option.strip("-"), text))
        elif name and value:
            found[name] = parse(value)
        else:
            raise OptionError(f"{option} takes name=value or a JSON file, not {text!r}")
    return found


def _value(text: str) -> Any:
    """A number, a truth value or a text."""
    import json

    try:
        value = json.loads(text)
    except ValueError:
        return text
    return value if isinstance(value, int | float | bool | None) else text


def _names(text: str) -> list[str]:
    """Names separated by commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


def _half_life(text: str) -> float | str | None:
    """A number of days, "auto" or None."""
    from rankwise.errors import OptionError

    if text in ("auto", "none"):
        return None if text == "none" else text
    try:
        return float(text)
    except ValueError:
        raise OptionError(f"--half-life is a number of days, auto or none, not {text!r}") from None


def _one(name: str, archive: str, **options: Any) -> PastStudy:
    """The study of that name; raises an error that says why it is missing."""
    from rankwise.errors import ArchiveError, UnknownNameError

    past = _open(archive, like=glob.escape(name), **options)
    if past.studies:
        return past.studies[0]
    everything = _open(archive, like="*", **options)
    if name in everything.left_out:
        raise ArchiveError(f"study {name!r} cannot be shown: {everything.left_out[name]}")
    raise UnknownNameError("study", name, [study.name for study in everything.studies])


def _facts(study: PastStudy) -> dict[str, Any]:
    """The row of a study in `archive ls`; "ok" counts trials with a value."""
    return {
        "name": study.name,
        "started": None if study.started is None else study.started.isoformat(" ", "minutes"),
        "direction": study.direction,
        "trials": len(study),
        "ok": int(study.ok.sum()),
        "best": float(study.values[study.ranking[0]]),
    }


def _parameters(study: PastStudy) -> dict[str, str]:
    """The range of each parameter as text."""
    from optuna.distributions import CategoricalDistribution

    found = {}
    for name, d in study.distributions.items():
        if isinstance(d, CategoricalDistribution):
            found[name] = "one of " + ", ".join(map(str, d.choices))
        else:
            scale = " on a log scale" if getattr(d, "log", False) else ""
            found[name] = f"{getattr(d, 'low', 0):g} to {getattr(d, 'high', 0):g}{scale}"
    return found
