"""Request: what `rankwise tune` was asked for, so that the same study can go on later."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from rankwise.errors import StudyMismatchError

COMMAND = "rankwise:command"
"""The attribute of a study that holds the request that began it."""
AUTO = "auto"

_SHORT = 6
_BLOCK = 1 << 20
_LIMITS = ("data", "trials", "timeout", "n_jobs", "report", "compare")  # change no score


@dataclass(frozen=True)
class Request:
    """All options of `rankwise tune` but the archive and the name.

    Attributes:
        data: the file.
        digest: of its content.
        target: the column that is to be predicted.
        estimator: its name, or "auto".
        metric: a scorer of scikit-learn; None for the usual one.
        task: "classification", "regression" or None to guess.
        cv: folds, at most.
        holdout: share of the rows that is held out.
        rows: that are searched on, at most.
        seed: of all randomness.
        method: that proposes configurations.
        trials: that the study is to have.
        timeout: seconds after which no trial is begun.
        n_jobs: trials at the same time.
        report: where to write the report; None for nowhere.
        compare: also run the same without history.
    """

    data: str
    digest: str
    target: str
    estimator: str = "auto"
    metric: str | None = None
    task: str | None = None
    cv: int = 5
    holdout: float = 0.2
    rows: int = 20_000
    seed: int = 0
    method: str = "auto"
    trials: int = 30
    timeout: float | None = None
    n_jobs: int = 1
    report: str | None = None
    compare: bool = False

    @property
    def definition(self) -> dict[str, Any]:
        """What must be the same for scores to be comparable and trials to go on."""
        return {key: value for key, value in asdict(self).items() if key not in _LIMITS}

    @property
    def name(self) -> str:
        """The name that the study has if none is given."""
        text = json.dumps(self.definition, sort_keys=True)
        short = hashlib.sha256(text.encode()).hexdigest()[:_SHORT]
        stem = re.sub(r"[^\w.-]+", "-", Path(self.data).name.split(".")[0]).strip("-") or "data"
        return f"{stem}-{self.estimator}-{short}"

    def to_json(self) -> str:
        """The request as it is stored; paths are absolute there."""
        paths = {"data": self.data, "report": self.report}
        absolute = {k: None if v is None else str(Path(v).absolute()) for k, v in paths.items()}
        return json.dumps({**asdict(self), **absolute})

    @classmethod
    def from_json(cls, text: str) -> Request:
        """A stored request; options of other versions are dropped."""
        known = {field.name for field in fields(cls)}
        return cls(**{key: value for key, value in json.loads(text).items() if key in known})

    def check_same(self, attributes: Mapping[str, Any], name: str) -> None:
        """Raise `StudyMismatchError` if the study of that name was begun by another request."""
        if COMMAND not in attributes:
            if attributes:
                raise StudyMismatchError(
                    f"study {name!r} was not begun by rankwise tune; choose another --name"
                )
            return
        before = Request.from_json(attributes[COMMAND])
        if before.digest != self.digest:
            raise StudyMismatchError(
                f"{self.data} has changed since study {name!r} was begun: its scores cannot be "
                "compared with new ones; begin another study with --name"
            )
        for key, value in before.definition.items():
            now = self.definition[key]
            if now != value:
                raise StudyMismatchError(
                    f"study {name!r} was begun with --{key} {_shown(value)}, not {_shown(now)}; "
                    "use that, or begin another study with --name"
                )


def _shown(value: Any) -> str:
    return "unset" if value is None else str(value)


def file_digest(path: str | Path) -> str:
    """Of the content of a file."""
    digest = hashlib.sha256()
    with Path(path).open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()
