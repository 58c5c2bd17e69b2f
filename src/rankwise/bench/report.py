"""The report of benchmark runs: Markdown, one HTML page, and figures."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rankwise._core.atomic_write import atomic_write
from rankwise._core.extras import require
from rankwise.bench.base import PASTS
from rankwise.bench.figures import styles
from rankwise.bench.report_document import (
    Block,
    Heading,
    Table,
    Text,
    slug,
    to_html,
    to_markdown,
    unique,
)
from rankwise.bench.report_section import Section
from rankwise.bench.results import Run
from rankwise.bench.run_arrays import Missing, Panel, make_panels
from rankwise.bench.statistics import common
from rankwise.errors import BenchmarkDataError, OptionError, is_number

TITLE = "Benchmark report"
MARKS = (1, 5, 10, 25, 50, 100)
_READING = (
    "Regret is that of the best configuration after a number of trials: 0 for the best known "
    "loss of a task and 1 for the worst. Lower is better everywhere. Brackets are 95 % intervals "
    "from 1000 bootstrap draws of tasks and, within a task, of seeds. Methods are ranked on each "
    "pair of task and seed; equal regrets share their ranks. A method with a missing run has no "
    "mean."
)


def write_report(
    runs: Sequence[Run],
    out: Path,
    *,
    marks: Sequence[int] | None = None,
    environment: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
) -> list[Path]:
    """Write report.md, report.html and figures/ into a folder.

    Args:
        runs: runs of any benchmarks and protocols. Each pair of benchmark and protocol gets a
            section, and all benchmarks with the same protocol get a common section.
        out: folder of the report; it is created if it does not exist.
        marks: numbers of trials that tables show; by default those of `MARKS` that exist, and the
            last trial.
        environment: commands, versions and machines of the runs, by name.

    Returns:
        Paths of all written files.

    Raises:
        MissingPackageError: the extra `plot` is not installed.
        OptionError: there are no runs, or a mark is not a number of trials.
        BenchmarkDataError: the runs contradict each other, a package is missing, or the report
            cannot be written.
    """
    if not runs:
        raise OptionError("there are no runs to report")
    for mark in marks or ():
        if not is_number(mark, int) or mark < 0:
            raise OptionError(f"marks are numbers of trials, not {mark!r}")
    require("the report of a benchmark", "plot")
    panels = make_panels(runs)
    looks = styles(list(dict.fromkeys(run.method for run in runs)))
    blocks = [*_opening(runs, panels)]
    figures: list[Path] = []
    given: set[str] = set()
    for title, group in [*_overall(panels), *((_title(panel), [panel]) for panel in panels)]:
        name = unique(_stem(group), given)
        given.add(name)
        section = Section(
            title, group, _steps(group[0].trials, marks), looks, out / "figures" / name
        )
        blocks += [*section.blocks(), *_left_out(panels, group)]
        figures += section.written
    parts = [environment] if isinstance(environment, Mapping) else environment or []
    blocks += _closing(parts)
    return [*_write(blocks, out), *figures]


def _write(blocks: Sequence[Block], out: Path) -> list[Path]:
    texts = {"report.md": to_markdown(blocks, out), "report.html": to_html(blocks, TITLE)}
    try:
        for name, text in texts.items():
            with atomic_write(out / name) as unfinished:
                unfinished.write_text(text, encoding="utf-8")
    except OSError as error:
        raise BenchmarkDataError(f"the report cannot be written to {out}: {error}") from error
    return [out / name for name in texts]


def _steps(trials: int, marks: Sequence[int] | None) -> list[int]:
    """Return the numbers of trials that tables show, at least one.

    Args:
        trials: number of trials of the runs.
        marks: requested numbers, or None for `MARKS`.
    """
    if marks is None:
        return sorted({mark for mark in MARKS if mark <= trials} | {trials})
    return sorted({mark for mark in marks if mark <= trials}) or [trials]


# ---------------------------------------------------------------------- sections


def _title(panel: Panel) -> str:
    return f"{panel.benchmark}, {_protocol(panel)}"


def _stem(group: Sequence[Panel]) -> str:
    """Common prefix of the file names of a section's figures."""
    name = group[0].benchmark if len(group) == 1 else "overall"
    return slug(f"{name}-{group[0].initial}-{group[0].trials}")


def _protocol(panel: Panel) -> str:
    points = {0: "no initial points", 1: "1 initial point"}
    return f"{points.get(panel.initial, f'{panel.initial} initial points')}, {panel.trials} trials"


def _overall(panels: Sequence[Panel]) -> list[tuple[str, list[Panel]]]:
    """Group the panels that get a common section; return titles and groups.

    The panels of a group have the same protocol and the same change of the source tasks' losses
    ("inverted" or "shuffled"). So results with misleading source tasks are not mixed with others.
    """
    groups: dict[tuple[str, str], list[Panel]] = {}
    for panel in panels:
        kinds = [part for part in panel.benchmark.split(":")[1:] if part in PASTS]
        groups.setdefault((_protocol(panel), " and ".join(kinds)), []).append(panel)
    result = []
    for (protocol, kind), group in groups.items():
        shared = common(group)
        if len(group) > 1 and shared[0].methods:
            past = f", {kind} past" if kind else ""
            result.append((f"Overall: {len(group)} benchmarks, {protocol}{past}", shared))
    return result


def _left_out(panels: Sequence[Panel], group: Sequence[Panel]) -> Iterable[Block]:
    """Yield a sentence about methods that are left out because a benchmark lacks them."""
    names = [panel.benchmark for panel in group]
    kinds = {(panel.initial, panel.trials) for panel in group}
    alike = [p for p in panels if p.benchmark in names and (p.initial, p.trials) in kinds]
    others = dict.fromkeys(m for p in alike for m in p.methods if m not in group[0].methods)
    if others:
        yield Text(f"Left out, as not every benchmark has them: {', '.join(others)}.")


# ---------------------------------------------------------------------- beginning and end


def _opening(runs: Sequence[Run], panels: Sequence[Panel]) -> Iterable[Block]:
    methods = dict.fromkeys(run.method for run in runs)
    names = dict.fromkeys(panel.benchmark for panel in panels)
    yield Heading(1, TITLE)
    yield Text(
        f"Methods: {', '.join(methods)}. Benchmarks: {', '.join(names)}. "
        f"Runs: {sum(run.regrets is not None for run in runs)}."
    )
    rows = [row for panel in panels for row in _missing_rows(panel)]
    if rows:
        count = sum(len(panel.missing) for panel in panels)
        expected = sum(panel.regrets.shape[0] * panel.regrets.shape[1] for panel in panels)
        yield Text(f"Missing runs: {count} of {expected}", alarm=True)
        yield Table(("method", "benchmark", "runs", "which", "why"), rows, alarm=True)
    else:
        yield Text("No run is missing.")
    yield Text(_READING)


def _missing_rows(panel: Panel) -> Iterable[list[str]]:
    groups: dict[tuple[str, str], list[Missing]] = {}
    for run in panel.missing:
        groups.setdefault((run.method, run.reason), []).append(run)
    for (method, reason), group in groups.items():
        yield [method, _title(panel), str(len(group)), _which(panel, group), reason]


def _which(panel: Panel, missing: Sequence[Missing]) -> str:
    """Describe the tasks and seeds of missing runs."""
    if len(missing) == len(panel.blocks):
        return "all"
    seeds: dict[str, list[int]] = {}
    for run in missing:
        seeds.setdefault(run.task, []).append(run.seed)
    return "; ".join(
        f"{task}: {'seed' if len(own) == 1 else 'seeds'} {', '.join(map(str, own))}"
        for task, own in seeds.items()
    )


def _closing(environments: Sequence[Mapping[str, Any]]) -> Iterable[Block]:
    """Yield the table of commands, versions and machines; different values are all listed."""
    values: dict[str, dict[str, None]] = {}
    for environment in environments:
        for name, value in _flat(environment):
            values.setdefault(name, {})[_shown(name, value)] = None
    if values:
        yield Heading(2, "Environment")
        yield Table(("what", "value"), [[name, "; ".join(own)] for name, own in values.items()])


def _flat(facts: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    """Yield names and values; nested settings are flattened."""
    for name, value in facts.items():
        if isinstance(value, Mapping) and not all(isinstance(v, str) for v in value.values()):
            yield from _flat(value)
        else:
            yield str(name), value


def _shown(name: str, value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {part}" for key, part in value.items() if part)
    if isinstance(value, str) or not isinstance(value, Iterable):
        return str(value)
    words = [str(part) for part in value]
    if name == "command":
        return shlex.join(words)
    return ", ".join(words) if len(words) <= 12 else f"{len(words)}: {', '.join(words[:3])}, ..."
