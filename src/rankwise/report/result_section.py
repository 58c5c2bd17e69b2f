"""The first section of a report (the result) and the last (how to reproduce it)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rankwise._core.environment import environment
from rankwise._core.words import count
from rankwise.report.html import (
    Html,
    Section,
    cards,
    code,
    cut,
    duration,
    pairs,
    paragraph,
    percent,
    shown,
)
from rankwise.report.past_section import shares_of, trust_in_words
from rankwise.report.sections import compared
from rankwise.report.study_record import PRUNED, Record
from rankwise.storage.study_log import without_password
from rankwise.storage.trial_facts import number_of

_PRIMITIVE = (bool, int, float, str, type(None))
_NOTED = ("seed", "method", "design", "n_jobs", "options", "past tasks")


def result_section(record: Record, baseline: Record | None) -> Section:
    """Make the section with the best value, the best configuration and a summary in sentences."""
    parts = [cards(_facts(record)), paragraph(_summary(record, baseline), "lead")]
    best = record.best
    if best is not None and best.params:
        parts.append(paragraph("The best configuration:"))
        parts.append(pairs({name: shown(value) for name, value in best.params.items()}))
    return Section("result", "Result", parts)


def _facts(record: Record) -> list[tuple[str, str, str]]:
    best, larger = record.best, record.direction == "maximize"
    facts = []
    if best is None:
        facts.append(("Best value", "none", "no trial has a value"))
    else:
        remark = f"trial {best.number}, {'larger' if larger else 'smaller'} is better"
        folds = [fold for fold in best.folds if not math.isnan(fold)]
        if len(folds) > 1:
            remark += f"; {min(folds):.4g} to {max(folds):.4g} over {len(folds)} folds"
        facts.append(("Best value", shown(best.value), remark))
    facts.append(("Trials", str(len(record.rows)), _states(record)))
    seconds = [s for r in record.ended for s in (r.seconds, r.proposal_seconds)]
    known = [s for s in seconds if not math.isnan(s)]
    proposed = any(not math.isnan(row.proposal_seconds) for row in record.ended)
    where = "in evaluations and proposals" if proposed else "from start to end of each trial"
    facts.append(("Time", duration(sum(known)), where) if known else ("Time", "unknown", ""))
    if not math.isnan(record.trust):
        facts.append(("Transfer trust", percent(record.trust), trust_in_words(record.trust)))
    elif record.noted("past tasks") is not None:
        facts.append(("Past studies", "used", "their weights are not recorded"))
    return facts


def _states(record: Record) -> str:
    states: dict[str, int] = {}
    for row in record.rows:
        states[row.state] = states.get(row.state, 0) + 1
    return ", ".join(f"{n} {state}" for state, n in states.items()) or "none yet"


def _summary(record: Record, baseline: Record | None) -> str:
    best, ended = record.best, len(record.ended)
    waiting = len(record.rows) - ended
    method = record.noted("method")
    by = f" by {cut(method, 40)}" if isinstance(method, str) else ""
    if best is None:
        text = f"Of {count(ended, 'finished trial')}{by} none has a value."
        return text + (f" Trials not finished yet: {waiting}." if waiting else "")
    place = [row.number for row in record.ended].index(best.number)
    text = f"The best of {count(ended, 'finished trial')}{by} has the value {shown(best.value)}"
    later = ended - place - 1
    if later >= 5:
        text += f"; none of the {later} later trials is better"
    sentences = [f"{text}."]
    first = record.complete[0]
    if first.number != best.number:
        sentences.append(f"The first trial with a value has {shown(first.value)}.")
    sentences += _past_in_words(record)
    if baseline is not None and baseline.complete:
        sentences.append(compared(record, baseline))
    lost = [row for row in record.ended if not row.ok and row.state != PRUNED]
    if lost:
        sentences.append(f"Trials without a valid value: {len(lost)}.")
    if waiting:
        sentences.append(f"Trials not finished yet: {waiting}.")
    if record.unsaved:
        sentences.append(
            f"Trials that could not be written to the storage and are missing from this report: "
            f"{len(record.unsaved)}."
        )
    return " ".join(sentences)


def _past_in_words(record: Record) -> list[str]:
    if record.past is not None and not record.past.studies:
        return ["It learnt from no past study."]
    rows = [row for row in record.rows if row.sources]
    if not rows:
        return []
    shares = shares_of(rows)
    names = [cut(name, 60) or "unnamed" for name in list(shares)[:2]]
    used = "past studies"  # trials name the most important ones only, so their number is unknown
    if record.past is not None:
        used = count(len(record.past.studies), "past study", "past studies")
    return [f"It learnt from {used}, most from {' and '.join(names)}."]


def subtitle(record: Record) -> str:
    """Make the subtitle of the page: the estimator and its data, if known, and the date."""
    parts = []
    search = record.noted("search")
    if isinstance(search, Mapping):
        parts += _search_in_words(search)
    if record.finished.started is not None:
        parts.append(f"started {record.finished.started:%Y-%m-%d %H:%M}")
    return " · ".join(parts)


def _search_in_words(search: Mapping[str, Any]) -> list[str]:
    parts = []
    if isinstance(search.get("estimator"), str):
        parts.append(cut(search["estimator"], 120))
    if isinstance(search.get("scoring"), str):
        parts.append(f"scored by {cut(search['scoring'], 60)}")
    sizes = [
        ("n_rows", "row", "rows"),
        ("n_columns", "column", "columns"),
        ("classes", "class", "classes"),
        ("n_splits", "fold", "folds"),
    ]
    known = [(number_of(search.get(key)), one, many) for key, one, many in sizes]
    return parts + [count(int(n), one, many) for n, one, many in known if not math.isnan(n)]


# ---------------------------------------------------------------------- how to reproduce


def reproduce_section(record: Record) -> Section:
    """Make the section with seed, method, versions, storage and code to load the study."""
    facts = {"study": record.name, "storage": record.place}
    for key in _NOTED:
        value = record.noted(key)
        if value not in (None, {}, []):
            facts[key.replace("past tasks", "digest of past studies")] = cut(_listed(value), 300)
    here = environment(full=True)
    facts["rankwise"] = f"{here['rankwise']} {here['commit']}".strip()
    facts["Python"] = str(here["python"])
    facts.update({name: text for name, text in here["packages"].items() if text})
    parts: list[Html] = [
        pairs({name: without_password(value) for name, value in facts.items()}),
        paragraph("The versions are those of the installation that wrote this report.", "note"),
    ]
    command = record.noted("command line")
    if command:
        parts += [paragraph("The command:"), code(without_password(str(command)))]
    parts += [paragraph("In Python:"), code(_code(record))]
    return Section("reproduce", "How to reproduce", parts)


def _listed(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={part}" for key, part in value.items())
    return str(value)


def _code(record: Record) -> str:
    """Write Python code that loads the study and has its best configuration."""
    lines = []
    if record.origin:
        hidden = "  # *** stands for the password" if ":***@" in record.origin else ""
        address = repr(record.origin)
        if "://" not in record.origin:  # a journal file
            backend = f"optuna.storages.journal.JournalFileBackend({address})"
            address = f"optuna.storages.JournalStorage({backend})"
        lines += [
            "import optuna",
            "from rankwise.report import write_report",
            "",
            "study = optuna.load_study(",
            f"    study_name={record.name!r},",
            f"    storage={address},{hidden}",
            ")",
            'write_report(study, "report.html")',
            "",
        ]
    if record.finished.several:
        return "\n".join(lines) or "# the study is in memory only"
    best = record.best
    lines.append("best = {" if best is not None and best.params else "best = {}  # none yet")
    if best is not None and best.params:
        lines += [f"    {name!r}: {_literal(value)}," for name, value in best.params.items()]
        lines.append("}")
    return "\n".join(lines)


def _literal(value: Any) -> str:
    """Convert a value to Python code; a value without a literal form becomes a string."""
    if isinstance(value, float) and not math.isfinite(value):
        return f"float({str(value)!r})"
    return repr(value) if isinstance(value, _PRIMITIVE) else repr(str(value))
