"""The commands `rankwise archive ls`, `show`, `describe`, `import`, `export` and `forget`."""

from __future__ import annotations

import glob
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankwise.commands.console import (
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
    help="Look at past studies, and take them from one place to another.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)

_Like = Annotated[str, typer.Option(help='Only studies with such names: "xgb-*".')]
_Name = Annotated[str, typer.Argument(help="Of the study.")]
_Direction = Annotated[
    str | None, typer.Option(help="Of tables, which do not say it: minimize or maximize.")
]
_BEST = 10  # trials that `show` lists


@app.command("ls")
def list_studies(
    archive: InArchive = DEFAULT_ARCHIVE,
    like: _Like = "*",
    direction: _Direction = None,
    as_json: AsJson = False,
) -> None:
    """List the studies of an archive.

    Example: rankwise archive ls --archive sqlite:///rankwise.db --like "iris-*"
    """
    past = _open(archive, like=like, direction=direction)
    rows = [_facts(study) for study in past.studies]
    if as_json:
        show_json([*rows, *({"name": n, "left_out": why} for n, why in past.left_out.items())])
        return
    table = [(r["name"], r["started"], r["direction"], r["trials"], r["best"]) for r in rows]
    show_table(("study", "began", "direction", "trials", "best"), table, numbers=2)
    for name, why in past.left_out.items():
        say(f"not used: {name}: {why}")


@app.command("show")
def show_study(
    name: _Name,
    archive: InArchive = DEFAULT_ARCHIVE,
    direction: _Direction = None,
    as_json: AsJson = False,
) -> None:
    """Show one study: what was searched, what is known of its data, and its best trials.

    Example: rankwise archive show iris-random-forest-1a2b3c
    """
    study = _one(name, archive, direction)
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
    print(f"{name}: {len(study)} trials, {study.direction}, best {facts['best']:.6g}{began}")
    show_table(("parameter", "range"), list(facts["parameters"].items()))
    if study.context:
        show_table(("known of its data", ""), sorted(study.context.items()))
    names = list(study.distributions)
    sign = 1.0 if study.direction == "minimize" else -1.0
    best = sorted((t for t in trials if t["status"] == "ok"), key=lambda t: sign * t["value"])
    rows = [[float(t["value"]), *(t["params"].get(p) for p in names)] for t in best[:_BEST]]
    show_table(("value", *names), rows, title=f"the best {len(rows)} trials")


@app.command("describe")
def describe(
    archive: InArchive = DEFAULT_ARCHIVE,
    like: _Like = "*",
    direction: _Direction = None,
    as_json: AsJson = False,
) -> None:
    """Say what could be learnt from an archive: its common space and how its studies agree.

    Example: rankwise archive describe --like "iris-*"
    """
    from rankwise.commands.console import visible

    description = _open(archive, like=like, direction=direction).describe()
    if as_json:
        show_json(description.to_dict())
    else:
        print(visible(str(description)))


@app.command("import")
def import_studies(
    source: Annotated[
        str, typer.Argument(help="A storage URL, a file or folder: Optuna, HPO-B or tables.")
    ],
    archive: InArchive = DEFAULT_ARCHIVE,
    like: _Like = "*",
    prefix: Annotated[str, typer.Option(help="Put before the studies' names.")] = "",
    direction: _Direction = None,
    study: Annotated[str, typer.Option(help="Of tables: the column of names.")] = "study",
    value: Annotated[str, typer.Option(help="Of tables: the column of values.")] = "value",
    ignore: Annotated[str, typer.Option(help="Of tables: columns to skip, as a,b.")] = "",
    space: Annotated[str | None, typer.Option(help="Of HPO-B: the search space.")] = None,
    as_json: AsJson = False,
) -> None:
    """Copy studies into an archive; those that are there already are left alone.

    Example: rankwise archive import trials.csv --direction maximize --archive sqlite:///rankwise.db
    """
    from rankwise.commands.moving import studies_of, write_studies

    found = studies_of(
        source,
        like=like,
        direction=direction,
        study=study,
        value=value,
        ignore=[name for name in ignore.split(",") if name],
        space=space,
    )
    done = write_studies(found, archive, prefix)
    if as_json:
        show_json(done)
    else:
        show_table(("study", "trials", "what was done"), [tuple(row.values()) for row in done])
    if any(row["done"].startswith("refused") for row in done):
        say("rankwise: some studies were not imported; --prefix gives them names of their own")
        raise typer.Exit(1)


@app.command("export")
def export_studies(
    out: Annotated[Path, typer.Argument(help="The table to write: .csv or .jsonl.")],
    archive: InArchive = DEFAULT_ARCHIVE,
    like: _Like = "*",
    as_json: AsJson = False,
) -> None:
    """Write studies as one table: a row per trial, a column per parameter.

    Example: rankwise archive export trials.csv --like "iris-*"
    """
    from rankwise.commands.moving import write_table

    facts = write_table(_open(archive, like=like, direction=None), out)
    if as_json:
        show_json(facts)
        return
    print(f"{facts['rows']} trials of {facts['studies']} studies are in {out}")
    print(f"read it again: {facts['import']}")


@app.command("forget")
def forget(
    names: Annotated[list[str], typer.Argument(help="Of the studies.")],
    archive: InArchive = DEFAULT_ARCHIVE,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """Delete studies from an archive for good.

    Example: rankwise archive forget iris-random-forest-1a2b3c --yes
    """
    import optuna

    from rankwise.commands.places import existing_storage, load_study
    from rankwise.errors import OptionError
    from rankwise.study import quiet_optuna, storage_errors, without_password

    storage = existing_storage(archive)
    studies = [load_study(name, storage, archive) for name in dict.fromkeys(names)]
    n = sum(len(study.get_trials(deepcopy=False)) for study in studies)
    what = (
        f"{len(studies)} studies with {n} trials"
        if len(studies) > 1
        else (f"study {studies[0].study_name!r} with {n} trials")
    )
    if not yes:
        if not sys.stdin.isatty():
            raise OptionError("there is nobody to ask whether to delete; say it with --yes")
        typer.confirm(f"Delete {what} from {without_password(archive)}?", abort=True, err=True)
    with quiet_optuna(), storage_errors(without_password(archive), "write"):
        for study in studies:
            optuna.delete_study(study_name=study.study_name, storage=storage)
    if as_json:
        show_json({"forgotten": [study.study_name for study in studies], "trials": n})
    else:
        print(f"deleted {what}")


# ---------------------------------------------------------------------- studies as facts


def _open(archive: str, *, like: str, direction: str | None) -> Archive:
    from rankwise.archive import open_archive

    return open_archive(archive, like=like, direction=direction)


def _one(name: str, archive: str, direction: str | None) -> PastStudy:
    from rankwise.errors import ArchiveError, UnknownNameError

    past = _open(archive, like=glob.escape(name), direction=direction)
    if past.studies:
        return past.studies[0]
    everything = _open(archive, like="*", direction=direction)
    if name in everything.left_out:
        raise ArchiveError(f"study {name!r} cannot be shown: {everything.left_out[name]}")
    raise UnknownNameError("study", name, [study.name for study in everything.studies])


def _facts(study: PastStudy) -> dict[str, Any]:
    best = min if study.direction == "minimize" else max
    return {
        "name": study.name,
        "started": None if study.started is None else study.started.isoformat(" ", "minutes"),
        "direction": study.direction,
        "trials": len(study),
        "ok": int(study.ok.sum()),
        "best": float(best(study.values[study.ok])),
    }


def _parameters(study: PastStudy) -> dict[str, str]:
    from optuna.distributions import CategoricalDistribution

    found = {}
    for name, d in study.distributions.items():
        if isinstance(d, CategoricalDistribution):
            found[name] = "one of " + ", ".join(map(str, d.choices))
        else:
            scale = " on a log scale" if getattr(d, "log", False) else ""
            found[name] = f"{getattr(d, 'low', 0):g} to {getattr(d, 'high', 0):g}{scale}"
    return found
