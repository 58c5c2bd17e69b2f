"""The commands `rankwise methods`, `spaces` and `doctor`."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankwise._core.words import count
from rankwise.cli.console import (
    ARCHIVE_VARIABLE,
    DEFAULT_ARCHIVE,
    NOWHERE,
    AsJson,
    InArchive,
    say,
    show_json,
    show_table,
)

if TYPE_CHECKING:
    from rankwise.methods.method import Method

_NEIGHBOURS = {
    "xgboost": "--estimator xgboost",
    "lightgbm": "--estimator lightgbm",
    "catboost": "--estimator catboost",
    "pyarrow": "Parquet files",
    "openpyxl": "Excel files",
    "skops": "tune --save, predict",
    "psycopg": "PostgreSQL",
    "psycopg2": "PostgreSQL (older driver)",
    "pymysql": "MySQL",
    "mysqlclient": "MySQL (other driver)",
}
"""Packages that users may need and what for; none is installed with rankwise."""
_FOR_DEVELOPERS = {"dev", "docs", "networks", "release", "test"}
"""Extras that are not shown; "networks" is the former name of "neural"."""
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def show_methods(
    every: Annotated[
        bool, typer.Option("--all", help="List all methods, not only the recommended ones.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List the recommended methods; with --all or --json, all methods.

    The column "installed" names the extra that a method needs where it is not installed.

    Example: rankwise methods --all
    """
    from rankwise import methods

    rows = [methods.get(name) for name in methods.available()]
    if as_json:
        facts = [
            {
                "name": m.name,
                "summary": m.summary,
                "transfer": m.transfer,
                "installed": m.installed,
                "needs": m.needs,
                "options": m.options if m.installed else None,  # not known without its packages
            }
            for m in rows
        ]
        show_json(facts)
        return
    recommended = [m for m in rows if m.use_when]
    columns = ("method", "installed", "use it", "what it is")
    show_table(columns, [(m.name, _installed(m), m.use_when, m.summary) for m in recommended])
    others = [m for m in rows if not m.use_when]
    if every:
        columns = ("method", "installed", "learns from past studies", "what it is")
        show_table(columns, [(m.name, _installed(m), m.transfer, m.summary) for m in others])
    else:
        print(f"{len(others)} more: rankwise methods --all")
    for extra in sorted({m.needs for m in rows if not m.installed}):
        print(f'for the methods that need {extra}: pip install "rankwise[{extra}]"')


def _installed(method: Method) -> str:
    return "yes" if method.installed else f"needs {method.needs}"


def show_spaces(
    name: Annotated[
        str, typer.Argument(help="Show the hyperparameters and ranges of this estimator.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """List the estimators that have a ready-made search space.

    Example: rankwise spaces random-forest
    """
    from rankwise.errors import check_name
    from rankwise.estimators import ready

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
    columns = ("name", "estimators", "description", "hyperparameters")
    show_table(columns, table, numbers=1)


def _range(hyperparameter: Any) -> str:
    """The range or the choices of a hyperparameter as text."""
    choices = getattr(hyperparameter, "choices", getattr(hyperparameter, "sequence", None))
    if choices is not None:
        return "one of " + ", ".join(map(str, choices))
    if not hasattr(hyperparameter, "lower"):
        return str(hyperparameter)
    scale = " on a log scale" if hyperparameter.log else ""
    return f"{hyperparameter.lower:g} to {hyperparameter.upper:g}{scale}"


def examine(archive: InArchive = DEFAULT_ARCHIVE, as_json: AsJson = False) -> None:
    """Check versions, optional packages, thread limits and access to the archive.

    The exit code is 1 if a check fails.

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
    limits = ", ".join(f"{k}={v}" for k, v in facts["threads"].items() if v) or "no limit set"
    print(f"cores: {facts['cores']}; threads: {limits}")
    print(f"archive: {facts['archive']['about']}")
    print("problems were found" if facts["broken"] else "no problems found")


def _cores() -> int:
    """The number of CPU cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _packages() -> list[dict[str, Any]]:
    """Required and optional packages, their installed versions and what is wrong with them."""
    from packaging.requirements import Requirement

    rows: dict[str, dict[str, Any]] = {}
    for text in metadata.requires("rankwise") or ():
        needed = Requirement(text)
        extra = str(needed.marker).split("==")[-1].strip(" \"'") if needed.marker else ""
        if extra in _FOR_DEVELOPERS or needed.name == "rankwise":
            continue
        if needed.name in rows:
            rows[needed.name]["extra"] += f", {extra}"
            continue
        version = _version(needed.name)
        problem = None
        if version is None and not extra:
            problem = f"missing; pip install '{needed.name}{needed.specifier}'"
        elif version is not None and not needed.specifier.contains(version, prereleases=True):
            problem = f"version {version} is not {needed.specifier}"
        rows[needed.name] = {
            "package": needed.name,
            "extra": extra,
            "version": version,
            "problem": problem,
        }
    for name, purpose in _NEIGHBOURS.items():
        if name not in rows:
            found = {"package": name, "extra": purpose, "version": _version(name)}
            rows[name] = {**found, "problem": None}
    return list(rows.values())


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _archive(address: str) -> tuple[bool, str]:
    """True if an archive can be used, and a sentence that describes its state."""
    from pathlib import Path

    from rankwise.cli.addresses import existing_storage
    from rankwise.errors import RankwiseError
    from rankwise.storage.locations import sqlite_path
    from rankwise.storage.study_log import without_password

    shown = without_password(address)
    if address == NOWHERE:
        return True, "none (--archive none)"
    path = sqlite_path(address) if "://" in address else Path(address)
    if path is not None and not path.exists():
        folder = path.absolute().parent
        if os.access(folder, os.W_OK):
            return True, f"{shown} does not exist yet; rankwise tune will create it"
        return False, f"{shown} does not exist, and its folder {folder} is not writable"
    try:
        n = len(existing_storage(address).get_all_studies())
    except RankwiseError as error:
        return False, f"{error} (set another one with --archive or {ARCHIVE_VARIABLE})"
    return True, f"{shown} has {count(n, 'study')}"
