"""The first and the last section: what was found, and how to find it again."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from typing import Any

from rankwise.bench.environment import environment
from rankwise.report.page import (
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
from rankwise.report.past import shares_of, trust_in_words
from rankwise.report.record import PRUNED, Record, number
from rankwise.report.sections import compared, count
from rankwise.study import without_password

_PRIMITIVE = (bool, int, float, str, type(None))
_NOTED = ("seed", "method", "design", "n_jobs", "options", "past tasks")


def result_section(record: Record, baseline: Record | None) -> Section:
    """The best value and configuration, and a summary in plain words."""
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
    where = "in evaluations and proposals" if proposed else "in evaluations"
    facts.append(("Time", duration(sum(known)), where) if known else ("Time", "unknown", ""))
    trusts = [row.trust for row in record.rows if not math.isnan(row.trust)]
    if trusts:
        facts.append(("Trust in the past", percent(trusts[-1]), trust_in_words(trusts[-1])))
    elif record.noted("past tasks") is not None:
        facts.append(("The past", "was used", "how much is not recorded"))
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
        return text + (f" {count(waiting, 'trial')} did not finish yet." if waiting else "")
    place = [row.number for row in record.ended].index(best.number)
    text = f"The best of {count(ended, 'finished trial')}{by} has the value {shown(best.value)}"
    later = ended - place - 1
    if later >= 5:
        text += f"; the {later} trials after it brought nothing better"
    sentences = [f"{text}."]
    first = record.complete[0]
    if first.number != best.number:
        sentences.append(f"The first one had {shown(first.value)}.")
    sentences += _past_in_words(record)
    if baseline is not None and baseline.complete:
        sentences.append(compared(record, baseline))
    lost = [row for row in record.ended if not row.ok and row.state != PRUNED]
    if lost:
        sentences.append(f"{count(len(lost), 'trial')} brought no value that counts.")
    if waiting:
        sentences.append(f"{count(waiting, 'trial')} did not finish yet.")
    if record.unsaved:
        sentences.append(
            f"{count(len(record.unsaved), 'trial')} could not be written to the storage and are "
            "not in this report."
        )
    return " ".join(sentences)


def _past_in_words(record: Record) -> list[str]:
    rows = [row for row in record.rows if row.sources]
    if not rows:
        return []
    shares = shares_of(rows)
    names = [cut(name, 60) or "unnamed" for name in list(shares)[:2]]
    learnt = f"It learnt from {count(len(shares), 'past study', 'past studies')}"
    return [f"{learnt}, most from {' and '.join(names)}."]


def subtitle(record: Record) -> str:
    """What was tuned, if the study says so, and when."""
    parts = []
    search = record.noted("search")
    if isinstance(search, Mapping):
        parts += _search_in_words(search)
    if record.finished.started is not None:
        parts.append(f"begun {record.finished.started:%Y-%m-%d %H:%M}")
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
    known = [(number(search.get(key)), one, many) for key, one, many in sizes]
    return parts + [count(int(n), one, many) for n, one, many in known if not math.isnan(n)]


# ---------------------------------------------------------------------- how to reproduce


def reproduce_section(record: Record) -> Section:
    """Seed, method, versions, where the study is, and code."""
    facts = {"study": record.name, "storage": record.place}
    for key in _NOTED:
        value = record.noted(key)
        if value not in (None, {}, []):
            facts[key.replace("past tasks", "digest of the past")] = cut(_listed(value), 300)
    here = environment(full=True)
    facts["rankwise"] = f"{here['rankwise']} {here['commit']}".strip()
    facts["Python"] = str(here["python"])
    facts.update({name: text for name, text in here["packages"].items() if text})
    parts: list[Html] = [
        pairs({name: without_password(value) for name, value in facts.items()}),
        paragraph("Versions are those of the installation that wrote this report.", "note"),
    ]
    command = record.noted("command")
    if command:
        line = shlex.join(map(str, command)) if isinstance(command, list) else str(command)
        parts += [paragraph("The command:"), code(without_password(line))]
    parts += [paragraph("In Python:"), code(_code(record))]
    return Section("reproduce", "How to reproduce", parts)


def _listed(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={part}" for key, part in value.items())
    return str(value)


def _code(record: Record) -> str:
    lines = []
    if record.origin:
        hidden = "  # *** stands for the password" if ":***@" in record.origin else ""
        address = repr(record.origin)
        if "://" not in record.origin:  # the file of a journal
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
    best = record.best
    lines.append("best = {" if best is not None and best.params else "best = {}  # none yet")
    if best is not None and best.params:
        lines += [f"    {name!r}: {_literal(value)}," for name, value in best.params.items()]
        lines.append("}")
    return "\n".join(lines)


def _literal(value: Any) -> str:
    """A value as code; of what is no plain value only its text, which does nothing."""
    if isinstance(value, float) and not math.isfinite(value):
        return f"float({str(value)!r})"
    return repr(value) if isinstance(value, _PRIMITIVE) else repr(str(value))
