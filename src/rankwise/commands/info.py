"""The commands `rankwise methods`, `spaces` and `doctor`."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from typing import Annotated, Any

import typer

from rankwise.commands.console import (
    ARCHIVE_VARIABLE,
    DEFAULT_ARCHIVE,
    NOWHERE,
    AsJson,
    InArchive,
    say,
    show_json,
    show_table,
)

_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def show_methods(as_json: AsJson = False) -> None:
    """List the methods that propose configurations.

    Example: rankwise methods --json
    """
    from rankwise import methods

    rows = [methods.get(name) for name in methods.available()]
    if as_json:
        facts = [
            {"name": m.name, "summary": m.summary, "transfer": m.transfer, "options": m.options}
            for m in rows
        ]
        show_json(facts)
        return
    table = [(m.name, m.transfer, m.summary) for m in rows]
    show_table(("method", "learns from the past", "what it is"), table)


def show_spaces(
    name: Annotated[str, typer.Argument(help="Only this estimator, with its ranges.")] = "",
    as_json: AsJson = False,
) -> None:
    """List the estimators that can be tuned without saying what to search.

    Example: rankwise spaces random-forest
    """
    from rankwise.errors import check_name
    from rankwise.learners import ready

    rows = {row.name: row for row in ready()}
    if name:
        rows = {name: rows[check_name("estimator", name, rows)]}
    if as_json:
        facts = [
            {
                "name": row.name,
                "summary": row.summary,
                "estimators": list(row.estimators),
                "hyperparameters": [str(h) for h in row.space.values()],
                "conditions": [str(c) for c in row.space.conditions],
            }
            for row in rows.values()
        ]
        show_json(facts)
        return
    if name:
        [row] = rows.values()
        hyperparameters = [(h.name, _range(h)) for h in row.space.values()]
        show_table(("hyperparameter", "range"), hyperparameters, title=f"{name}: {row.summary}")
        for condition in row.space.conditions:
            print(f"  {condition}")
        return
    table = [(r.name, ", ".join(r.estimators), r.summary, len(r.space)) for r in rows.values()]
    columns = ("name", "estimators", "what is searched", "hyperparameters")
    show_table(columns, table, numbers=1)


def _range(hyperparameter: Any) -> str:
    choices = getattr(hyperparameter, "choices", getattr(hyperparameter, "sequence", None))
    if choices is not None:
        return "one of " + ", ".join(map(str, choices))
    if not hasattr(hyperparameter, "lower"):
        return str(hyperparameter)
    scale = " on a log scale" if hyperparameter.log else ""
    return f"{hyperparameter.lower:g} to {hyperparameter.upper:g}{scale}"


def examine(archive: InArchive = DEFAULT_ARCHIVE, as_json: AsJson = False) -> None:
    """Check versions, optional packages, threads and whether the archive can be reached.

    The exit code is 1 if something is broken.

    Example: rankwise doctor --archive postgresql://db.example.org/studies
    """
    import rankwise

    packages = _packages()
    broken = [f"{row['package']}: {row['problem']}" for row in packages if row["problem"]]
    reachable, about = _archive(archive)
    if not reachable:
        broken.append(about)
    threads = {name: os.environ.get(name) for name in _THREADS}
    facts = {
        "rankwise": rankwise.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": _cores(),
        "threads": threads,
        "packages": packages,
        "archive": {"reachable": reachable, "about": about},
        "broken": broken,
    }
    if as_json:
        show_json(facts)
    else:
        _show(facts)
    for problem in broken:
        say(f"rankwise: {problem}")
    if broken:
        raise typer.Exit(1)


def _show(facts: dict[str, Any]) -> None:
    print(f"rankwise {facts['rankwise']}, Python {facts['python']}, {facts['platform']}")
    rows = [
        (p["package"], p["extra"] or "needed", p["version"], p["problem"] or "")
        for p in facts["packages"]
    ]
    show_table(("package", "for", "version", "problem"), rows)
    limits = ", ".join(f"{k}={v}" for k, v in facts["threads"].items() if v) or "no limit is set"
    print(f"cores: {facts['cores']}; threads: {limits}")
    print(f"archive: {facts['archive']['about']}")
    print("something is broken" if facts["broken"] else "all is well")


def _cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _packages() -> list[dict[str, Any]]:
    """What is needed and what is optional, with the version that is there."""
    from packaging.requirements import Requirement

    rows = []
    for text in metadata.requires("rankwise") or ():
        needed = Requirement(text)
        extra = str(needed.marker).split("==")[-1].strip(" \"'") if needed.marker else ""
        try:
            version = metadata.version(needed.name)
        except metadata.PackageNotFoundError:
            version = None
        problem = None
        if version is None and not extra:
            problem = f"missing; pip install '{needed.name}{needed.specifier}'"
        elif version is not None and not needed.specifier.contains(version, prereleases=True):
            problem = f"version {version} is not {needed.specifier}"
        rows.append(
            {"package": needed.name, "extra": extra, "version": version, "problem": problem}
        )
    return rows


def _archive(address: str) -> tuple[bool, str]:
    """Whether an archive can be used, and a sentence about it."""
    from pathlib import Path

    from rankwise.archive.places import sqlite_path
    from rankwise.commands.places import existing_storage
    from rankwise.errors import RankwiseError
    from rankwise.study import without_password

    shown = without_password(address)
    if address == NOWHERE:
        return True, "none is wanted"
    path = sqlite_path(address) if "://" in address else Path(address)
    if path is not None and not path.exists():
        folder = path.absolute().parent
        if os.access(folder, os.W_OK):
            return True, f"{shown} is not there yet; rankwise tune makes it"
        return False, f"{shown} is not there, and nothing can be written to its folder {folder}"
    try:
        n = len(existing_storage(address).get_all_studies())
    except RankwiseError as error:
        return False, f"{error} (--archive or {ARCHIVE_VARIABLE} names another one)"
    return True, f"{shown} has {n} studies"
