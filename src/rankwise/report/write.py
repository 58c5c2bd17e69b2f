"""write_report: a study as one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rankwise.errors import OptionError, StorageError
from rankwise.report.forecast import forecast_section
from rankwise.report.opening import reproduce_section, result_section, subtitle
from rankwise.report.page import assemble
from rankwise.report.past import past_section
from rankwise.report.record import read
from rankwise.report.sections import (
    configurations_section,
    failures_section,
    importance_section,
    progress_section,
    time_section,
)

if TYPE_CHECKING:
    import os

    import optuna

    from rankwise.result import Result

_NAMELESS = "no-name-"  # how Optuna calls a study that was given no name


def write_report(
    study: optuna.Study | Result,
    path: str | os.PathLike[str],
    *,
    baseline: optuna.Study | Result | None = None,
    title: str | None = None,
) -> Path:
    """Write a report of a study as one HTML file that works without a network.

    Any Optuna study with one objective will do. What it does not say is left out, or the report
    says how to get it.

    Args:
        study: an Optuna study or the result of `rankwise.minimize`.
        path: of the file; its folder is made if it is not there.
        baseline: a study of the same budget without history, to be drawn beside it.
        title: of the page; by default the name of the study.

    Returns:
        The path of the file.

    Raises:
        OptionError: the study is none or has several objectives, or the baseline has another
            direction.
        StorageError: the study cannot be read or the file cannot be written.

    Example:
        >>> import tempfile, rankwise
        >>> run = rankwise.minimize(lambda c: c["x"] ** 2, {"x": (-1.0, 1.0)}, trials=5, seed=0)
        >>> path = write_report(run, Path(tempfile.mkdtemp()) / "report.html")
        >>> path.stat().st_size < 10e6
        True
    """
    record = read(study)
    other = None if baseline is None else read(baseline)
    if other is not None and other.direction != record.direction:
        raise OptionError(
            f"study {record.name!r} is to {record.direction} and the baseline {other.name!r} is "
            f"to {other.direction}; give a baseline of the same direction"
        )
    if title is None:
        title = "Study" if record.name.startswith(_NAMELESS) else record.name
    sections = [
        result_section(record, other),
        progress_section(record, other),
        configurations_section(record),
        past_section(record),
        forecast_section(record),
        importance_section(record),
        time_section(record),
        failures_section(record),
        reproduce_section(record),
    ]
    page = assemble(
        title,
        subtitle(record),
        [section for section in sections if section is not None],
        "Written by Rankwise. This file needs no network and sends nothing anywhere.",
    )
    target = Path(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        # A name may hold half of a surrogate pair, which no file can.
        target.write_text(page, encoding="utf-8", errors="replace", newline="\n")
    except OSError as error:
        raise StorageError(
            f"the report cannot be written to {str(target)!r}: {error.strerror or error}; choose "
            "another path"
        ) from error
    return target
