"""What is in an archive, for people and for programs."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from rankwise.archive.agreement import Agreement, agreement
from rankwise.task import OK

if TYPE_CHECKING:
    from rankwise.archive.archive import Archive
    from rankwise.archive.studies import PastStudy

_SHOWN = 20  # studies that the text lists


@dataclass(frozen=True)
class StudyFacts:
    """One study of an archive: how many of its trials ended how, and its best value."""

    name: str
    direction: str
    trials: int
    ok: int
    failed: int
    pruned: int
    best: float


@dataclass(frozen=True)
class ParameterFacts:
    """One parameter of the common space.

    Attributes:
        name: of the parameter.
        kind: "float", "integer" or "categorical".
        low: the smallest value; None for a categorical one.
        high: the largest value.
        log: whether its scale is logarithmic.
        step: of its grid, if it has one.
        choices: of a categorical one.
        condition: when it is active; "" for always.
        studies: how many studies have it.
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
        else:
            text = f"{self.kind} in [{self.low:g}, {self.high:g}]" + ", log scale" * self.log
            text += "" if self.step is None else f", steps of {self.step:g}"
        return f"{self.name}: {text}" + (f", {self.condition}" if self.condition else "")


@dataclass(frozen=True)
class Description:
    """What is in an archive; `str` of it is a text, `to_dict` is data for JSON.

    Attributes:
        origin: where the studies come from.
        studies: those that are used.
        left_out: by name why a study is not used.
        parameters: of the common space.
        agreement: how much the studies agree on what is good.
    """

    origin: str
    studies: tuple[StudyFacts, ...]
    left_out: dict[str, str]
    parameters: tuple[ParameterFacts, ...]
    agreement: Agreement

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
            f"{len(self.studies)} studies{where}, {counts['trials']} trials: {counts['ok']} with "
            f"a value ({counts['pruned']} of them pruned), {counts['failed']} without"
        ]
        for s in self.studies[:_SHOWN]:
            lines.append(f"  {s.name}: {s.trials} trials, {s.direction}, best {s.best:g}")
        if len(self.studies) > _SHOWN:
            lines.append(f"  ... and {len(self.studies) - _SHOWN} more")
        if self.left_out:
            lines.append(f"{len(self.left_out)} studies left out")
            lines += [f"  {name}: {why}" for name, why in self.left_out.items()]
        if self.parameters:
            lines.append(f"{len(self.parameters)} parameters")
        for p in self.parameters:
            every = "" if p.studies == len(self.studies) else f" (in {p.studies} studies)"
            lines.append(f"  {p}{every}")
        return "\n".join([*lines, str(self.agreement)])


def describe(archive: Archive) -> Description:
    """What is in an archive."""
    return Description(
        archive.origin,
        tuple(_study(study) for study in archive.studies),
        dict(archive.left_out),
        _parameters(archive) if archive.studies else (),
        agreement(archive.tasks.tasks),
    )


def _study(study: PastStudy) -> StudyFacts:
    ok = study.ok
    best = min if study.direction == "minimize" else max
    return StudyFacts(
        study.name,
        study.direction,
        len(study),
        int(ok.sum()),
        sum(status != OK for status in study.status),
        int((study.pruned & ok).sum()),
        float(best(study.values[ok])),
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
