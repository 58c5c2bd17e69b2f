"""Reads the runs of an MLflow tracking database with SQLAlchemy, which comes with Optuna."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from rankwise.errors import ArchiveError
from rankwise.storage.study_log import without_password

_COLUMNS = {
    "experiments": ("experiment_id", "name", "lifecycle_stage"),
    "runs": ("run_uuid", "experiment_id", "status", "start_time", "end_time", "lifecycle_stage"),
    "params": ("run_uuid", "key", "value"),
    "tags": ("run_uuid", "key", "value"),
    "latest_metrics": ("run_uuid", "key"),
    "metrics": ("run_uuid", "key", "value", "timestamp", "step", "is_nan"),
}


def runs(
    url: str,
    wanted: Callable[[str], bool],
    metric_of: Callable[[Iterable[str]], str],
    make: Callable[..., Any],
) -> dict[str, Any]:
    """The active runs of some experiments, by id.

    Args:
        url: URL of the database.
        wanted: filter of experiments by name.
        metric_of: chooses the metric among the names of those that were logged.
        make: makes a run.

    Raises:
        ArchiveError: the database cannot be read, or it is not one of MLflow.
    """
    import sqlalchemy as sa

    try:
        engine = sa.create_engine(url)
        try:
            with engine.connect() as connection:
                _check(url, sa.inspect(connection))
                return _read(sa, connection, wanted, metric_of, make)
        finally:
            engine.dispose()
    except (sa.exc.SQLAlchemyError, ImportError, ValueError, TypeError) as error:
        if isinstance(error, ArchiveError):
            raise
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise ArchiveError(
            f"{without_password(url)} cannot be read as a database of MLflow "
            f"({without_password(first)[:200]})"
        ) from error


def _check(url: str, inspector: Any) -> None:
    """Raise an error if a table or a column is missing."""
    tables = set(inspector.get_table_names())
    for table, columns in _COLUMNS.items():
        where = f"{without_password(url)} is not a database of MLflow that can be read"
        if table not in tables:
            found = ", ".join(sorted(tables)[:8]) or "none"
            raise ArchiveError(f"{where}: it has no table {table!r} (its tables: {found})")
        there = {column["name"] for column in inspector.get_columns(table)}
        missing = [column for column in columns if column not in there]
        if missing:
            raise ArchiveError(f"{where}: its table {table!r} has no column {missing[0]!r}")


def _read(
    sa: Any,
    connection: Any,
    wanted: Callable[[str], bool],
    metric_of: Callable[[Iterable[str]], str],
    make: Callable[..., Any],
) -> dict[str, Any]:
    tables = {t: sa.table(t, *(sa.column(c) for c in cs)) for t, cs in _COLUMNS.items()}
    experiments, run = tables["experiments"], tables["runs"]
    rows = connection.execute(
        sa.select(experiments.c.experiment_id, experiments.c.name).where(
            experiments.c.lifecycle_stage == "active"
        )
    )
    names = {key: name for key, name in rows if wanted(str(name))}
    chosen = (run.c.lifecycle_stage == "active") & run.c.experiment_id.in_(list(names))

    def of(table: Any, *columns: Any) -> Any:
        joined = table.join(run, run.c.run_uuid == table.c.run_uuid)
        return sa.select(table.c.run_uuid, *columns).select_from(joined).where(chosen)

    found = {
        row.run_uuid: make(
            row.run_uuid, names[row.experiment_id], row.status or "", row.start_time, row.end_time
        )
        for row in connection.execute(sa.select(run).where(chosen))
    }
    for what in ("params", "tags"):
        table = tables[what]
        for key, name, value in connection.execute(of(table, table.c.key, table.c.value)):
            getattr(found[key], what)[name] = value
    latest, metrics = tables["latest_metrics"], tables["metrics"]
    logged = connection.execute(of(latest, latest.c.key)).all()
    metric = metric_of(name for _, name in logged) if found else ""
    points = of(
        metrics, metrics.c.step, metrics.c.timestamp, metrics.c.value, metrics.c.is_nan
    ).where(metrics.c.key == metric)
    for key, step, moment, value, is_nan in connection.execute(points):
        loss = math.nan if is_nan or value is None else float(value)
        found[key].points.append((int(step or 0), int(moment or 0), loss))
    return found
