"""Description of an archive as text and as data."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from rankwise._core.words import count, listed
from rankwise.archive.ageing import SMALLEST
from rankwise.archive.agreement import Agreement, agreement
from rankwise.archive.curves import CurveFacts, curves_of
from rankwise.archive.merge_distributions import not_unified
from rankwise.archive.names import likely_renames
from rankwise.history.task import OK

if TYPE_CHECKING:
    from rankwise.archive.archive import Archive
    from rankwise.archive.past_study import PastStudy

_SHOWN = 20  # studies that the text lists


@dataclass(frozen=True)
class StudyFacts:
    """One study of an archive: numbers of trials by kind, and its best value.

    With several objectives, `direction` lists them and `best` is the first value of the trial that
    the fewest others dominate. `infeasible` trials violate a constraint; trials with a `curve`
    have intermediate values, about which `curve_facts` says more.
    """

    name: str
    direction: str
    trials: int
    ok: int
    failed: int
    pruned: int
    best: float
    infeasible: int = 0
    curves: int = 0
    curve_facts: str = ""


@dataclass(frozen=True)
class ParameterFacts:
    """One parameter of the common space.

    Attributes:
        name: name of the parameter.
        kind: "float", "integer" or "categorical".
        low: smallest value; None for a categorical parameter.
        high: largest value; None for a categorical parameter.
        log: True for a logarithmic scale.
        step: step of its grid, or None.
        choices: choices of a categorical parameter, else None.
        condition: condition under which it is active; "" if it always is.
        studies: number of studies that have it.
    """

    name: str
    kind: str
    low: float | None
    high: float | None
    log: bool
    step: float | None
    choices: list[Any] | None
    condition: str
    studies: int

    def __str__(self) -> str:
        if self.choices is not None:
            text = f"one of {self.choices}"
        elif self.low == self.high:
            text = f"always {self.low:g}"
        else:
            text = f"{self.kind} in [{self.low:g}, {self.high:g}]" + ", log scale" * self.log
            text += "" if self.step is None else f", steps of {self.step:g}"
        return f"{self.name}: {text}" + (f", {self.condition}" if self.condition else "")


@dataclass(frozen=True)
class Description:
    """Description of an archive; `str` gives a text, `to_dict` data for JSON.

    Attributes:
        origin: URL or path of the studies.
        studies: the studies that are used.
        left_out: the reason, by name, why a study is not used.
        parameters: parameters of the common space.
        agreement: rank correlations between the studies.
        notes: what was recognised, dropped and left out when the sources were read.
        renames: likely new names of parameters by old name, see `likely_renames`.
        not_unified: for each study with parameters that are not used, which and why.
        curves_left_out: the reason, by name, why the curves of a study cannot teach a pruner.
    """

    origin: str
    studies: tuple[StudyFacts, ...]
    left_out: dict[str, str]
    parameters: tuple[ParameterFacts, ...]
    agreement: Agreement
    notes: tuple[str, ...] = ()
    renames: dict[str, str] = field(default_factory=dict)
    not_unified: dict[str, str] = field(default_factory=dict)
    curves_left_out: dict[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Everything as dicts, lists, numbers and texts; None for an unknown agreement."""
        data = asdict(self)
        if math.isnan(self.agreement.mean):
            data["agreement"]["mean"] = None
        return data

    def __str__(self) -> str:
        counts = {
            what: sum(getattr(s, what) for s in self.studies)
            for what in ("trials", "ok", "failed", "pruned")
        }
        where = f" in {self.origin}" if self.origin else ""
        lines = [
            f"{count(len(self.studies), 'study')}{where}, {count(counts['trials'], 'trial')}: "
            f"{counts['ok']} with a value ({counts['pruned']} of them pruned), "
            f"{counts['failed']} without"
        ]
        lines += [f"  {note}" for note in self.notes]
        for s in self.studies[:_SHOWN]:
            line = f"  {s.name}: {count(s.trials, 'trial')}, {s.direction}, best {s.best:g}"
            line += f", {s.infeasible} infeasible" if s.infeasible else ""
            lines.append(line + (f", {s.curve_facts}" if s.curve_facts else ""))
        if len(self.studies) > _SHOWN:
            lines.append(f"  ... and {len(self.studies) - _SHOWN} more")
        if self.left_out:
            lines.append(f"{count(len(self.left_out), 'study')} left out")
            lines += [f"  {name}: {why}" for name, why in self.left_out.items()]
        if self.curves_left_out:
            studies = count(len(self.curves_left_out), "study")
            lines.append(f"curves of {studies} cannot teach a pruner")
            lines += [f"  {name}: {why}" for name, why in self.curves_left_out.items()]
        if self.parameters:
            lines.append(count(len(self.parameters), "parameter"))
        for p in self.parameters:
            every = "" if p.studies == len(self.studies) else f" (in {count(p.studies, 'study')})"
            lines.append(f"  {p}{every}")
        for why, n in Counter(self.not_unified.values()).items():
            lines.append(f"  {why} (in {n} {'study' if n == 1 else 'studies'})")
        if self.renames:
            lines.append(f"maybe one parameter under two names: rename={self.renames}")
        return "\n".join([*lines, str(self.agreement)])


def describe(archive: Archive) -> Description:
    """Describe an archive."""
    return Description(
        archive.origin,
        tuple(_study(study) for study in archive.studies),
        dict(archive.left_out),
        _parameters(archive) if archive.studies else (),
        agreement(archive.tasks.tasks),
        (
            *archive.notes,
            *_ageing(archive),
            *_steps(archive),
        ),
        _renames(archive) if archive.studies else {},
        not_unified(archive.studies),
        {s.name: why for s in archive.given if CurveFacts.of(s) and (why := curves_of(s)[1])},
    )


def _ageing(archive: Archive) -> list[str]:
    """Notes about the half-life and the studies that are too old; none without ageing."""
    if archive.ageing.half_life is None:
        return []
    old = archive.too_old
    left = f"{count(len(old), 'study')} not used, because of a weight below {SMALLEST:.0%}"
    return [str(archive.ageing), *([f"{left}: {listed(old)}"] if old else [])]


def _steps(archive: Archive) -> list[str]:
    """A note if the curves of the studies have different numbers of steps."""
    found = [facts.longest for study in archive.given if (facts := CurveFacts.of(study))]
    if len(set(found)) < 2:
        return []
    return [
        f"curves end at steps {min(found)} to {max(found)}: steps are compared as fractions of "
        "the longest curve of their study"
    ]


def _renames(archive: Archive) -> dict[str, str]:
    wanted = archive._search_space
    return likely_renames(archive.studies, archive.space.distributions, wanted)


def _study(study: PastStudy) -> StudyFacts:
    ok, direction, curves = study.ok, study.direction, CurveFacts.of(study)
    if study.objectives is not None:
        direction = " and ".join(map(str, study.objectives.kinds))
    return StudyFacts(
        study.name,
        direction,
        len(study),
        int(ok.sum()),
        sum(status != OK for status in study.status),
        int((study.pruned & ok).sum()),
        float(study.values[study.ranking[0]]),
        int((ok & ~study.feasible).sum()),
        0 if curves is None else curves.trials,
        "" if curves is None else str(curves),
    )


def _parameters(archive: Archive) -> tuple[ParameterFacts, ...]:
    space = archive.space
    facts = []
    for name, d in space.distributions.items():
        number = d if isinstance(d, FloatDistribution | IntDistribution) else None
        whole = isinstance(d, IntDistribution)
        step = None if number is None or (whole and number.step == 1) else number.step
        facts.append(
            ParameterFacts(
                name,
                "categorical" if number is None else "integer" if whole else "float",
                None if number is None else number.low,
                None if number is None else number.high,
                number is not None and bool(number.log),
                step,
                list(d.choices) if isinstance(d, CategoricalDistribution) else None,
                space.condition_text(name),
                int(np.sum([name in study.distributions for study in archive.studies])),
            )
        )
    return tuple(facts)
