"""`write_report`, which writes the report of a study as one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rankwise._core.atomic_write import atomic_write
from rankwise.errors import OptionError, StorageError
from rankwise.report.calibration import forecast_section
from rankwise.report.front_section import front_section
from rankwise.report.html import Section, assemble
from rankwise.report.past_section import past_section
from rankwise.report.result_section import reproduce_section, result_section, subtitle
from rankwise.report.sections import (
    configurations_section,
    failures_section,
    importance_section,
    progress_section,
    time_section,
)
from rankwise.report.study_record import read

if TYPE_CHECKING:
    import os

    import optuna

    from rankwise.run.result import Result

_NAMELESS = "no-name-"  # Optuna's prefix for studies without a name


def write_report(
    study: optuna.Study | Result,
    path: str | os.PathLike[str],
    *,
    baseline: optuna.Study | Result | None = None,
    title: str | None = None,
) -> Path:
    """Write a report of a study as one HTML file that works without a network.

    Any Optuna study can be used. One with several objectives gets its Pareto front. Missing facts
    are left out, or the report says how to record them.

    Args:
        study: an Optuna study or the result of `rankwise.minimize`.
        path: path of the file; its folder is created if needed.
        baseline: a study without past studies, drawn for comparison.
        title: title of the page; by default the name of the study.

    Returns:
        The path of the file.

    Raises:
        OptionError: `study` is not a study, or the baseline has the opposite direction or several
            objectives.
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
    if other is not None and (record.finished.several or other.finished.several):
        raise OptionError("a baseline needs studies with one objective")
    if record.finished.several:
        sections: list[Section | None] = [front_section(record)]
    else:
        sections = [
            result_section(record, other),
            progress_section(record, other),
            configurations_section(record),
        ]
    sections.append(past_section(record))
    if not record.finished.several:
        sections += [forecast_section(record), importance_section(record)]
    sections += [time_section(record), failures_section(record), reproduce_section(record)]
    page = assemble(
        title,
        subtitle(record),
        [section for section in sections if section is not None],
        "Written by Rankwise. This file needs no network and sends nothing anywhere.",
    )
    target = Path(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(target) as unfinished:
            # A study name may contain a lone surrogate, which UTF-8 cannot encode.
            unfinished.write_text(page, encoding="utf-8", errors="replace", newline="\n")
    except OSError as error:
        raise StorageError(
            f"the report cannot be written to {str(target)!r}: {error.strerror or error}; choose "
            "another path"
        ) from error
    return target
