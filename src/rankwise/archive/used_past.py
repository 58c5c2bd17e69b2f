"""UsedPast: which past studies a study learnt from, and which were left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from rankwise.archive.ageing import SMALLEST
from rankwise.errors import is_number

if TYPE_CHECKING:
    from rankwise.archive.archive import Archive

_KINDS = (
    ("objectives", "multi-objective"),
    ("no finished trial", "without finished trials"),
    ("cannot be read", "unreadable"),
    ("direction", "without a direction"),
    ("too old", "too old"),
)


@dataclass(frozen=True)
class UsedPast:
    """Past studies that were used, and those left out; `str` is one line about them.

    Attributes:
        studies: number of trials of each past study that was used, by name.
        left_out: the reason, by name, why a past study was not used.
        unused: the reason why no past study is used although some can be read; "" if there is
            none.
    """

    studies: Mapping[str, int] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    unused: str = ""

    @classmethod
    def of(cls, archive: Archive) -> UsedPast:
        """The studies of an archive."""
        old = dict.fromkeys(archive.too_old, f"too old: its weight is below {SMALLEST:.0%}")
        used = {s.name: len(s) for s in archive.studies if s.name not in old}
        return cls(used, {**archive.left_out, **old})

    def to_dict(self) -> dict[str, Any]:
        """The same as dicts and texts, for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, facts: Any) -> UsedPast | None:
        """Read what `to_dict` returned; None if it is something else."""
        if not isinstance(facts, Mapping):
            return None
        studies, left_out = facts.get("studies"), facts.get("left_out")
        if not isinstance(studies, Mapping) or not isinstance(left_out, Mapping):
            return None
        if not all(is_number(n) for n in studies.values()):
            return None
        counts = {str(name): int(n) for name, n in studies.items()}
        reasons = {str(name): str(why) for name, why in left_out.items()}
        return cls(counts, reasons, str(facts.get("unused") or ""))

    def __str__(self) -> str:
        n, trials = len(self.studies), sum(self.studies.values())
        text = "No past studies were found: proposals use this study alone"
        if n:
            text = f"Learnt from {_count(n, 'past study', 'past studies')}"
            text += f" ({_count(trials, 'trial', 'trials')})"
        elif self.unused:
            text = self.unused.rstrip(".")
        elif self.left_out:
            text = "No past study can be used: proposals use this study alone"
        if self.left_out:
            kinds: dict[str, int] = {}
            for why in self.left_out.values():
                kind = _kind(why)
                kinds[kind] = kinds.get(kind, 0) + 1
            reasons = ", ".join(f"{k} {kind}" for kind, k in kinds.items())
            text += f"; {len(self.left_out)} left out ({reasons})"
        return text + "."


def _kind(why: str) -> str:
    """A short name of a reason to leave out a study."""
    return next((kind for words, kind in _KINDS if words in why), "for other reasons")


def _count(n: int, one: str, many: str) -> str:
    return f"{n} {one if n == 1 else many}"
