"""Request: the options of `rankwise tune`, stored with the study so that it can be resumed."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from rankwise.errors import StudyMismatchError

COMMAND = "rankwise:command"
"""The study attribute that holds the request as JSON."""
COMMAND_LINE = "rankwise:command line"
"""The study attribute that holds the first command as a person types it."""
AUTO = "auto"

_SHORT = 6
_BLOCK = 1 << 20
_LIMITS = (
    "data",
    "trials",
    "timeout",
    "n_jobs",
    "report",
    "compare",
    "save",
    "choose",
)  # do not affect scores


@dataclass(frozen=True)
class Request:
    """All options of `rankwise tune` except the archive and the study name.

    Attributes:
        data: path of the data file.
        digest: SHA-256 of the file's content.
        target: the column to predict.
        estimator: name of a ready-made estimator, or "auto".
        metric: name of a scikit-learn scorer; None for the default of the problem. Several names
            with commas are several objectives; "fit_seconds" and "score_seconds" are possible.
        task: "classification", "regression" or None to guess.
        cv: maximum number of cross-validation folds.
        holdout: fraction of the rows to hold out.
        rows: maximum number of rows that the search uses.
        seed: random seed.
        method: optimization method, with options after a colon.
        trials: total number of trials.
        timeout: seconds after which no new trial is started.
        n_jobs: number of parallel jobs.
        report: path of the HTML report; None to write no report.
        compare: also run the same search without past studies.
        save: path of the file for the fitted model; None to save none.
        header: True if the first line of the file has names, False if not, None to detect it.
        past: what to learn from: "auto", "own", "builtin" or "none".
        choose: with several metrics, which configuration of the front is the final one: the
            name of a metric or "compromise"; None for the first metric.
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
    save: str | None = None
    header: bool | None = None
    past: str = AUTO
    choose: str | None = None

    @property
    def definition(self) -> dict[str, Any]:
        """The options that must not change when a study is resumed, as scores depend on them."""
        defined = {key: value for key, value in asdict(self).items() if key not in _LIMITS}
        if self.header is None:  # as before there was the option, so that names stay the same
            del defined["header"]
        if self.past == AUTO:
            del defined["past"]
        return defined

    @property
    def name(self) -> str:
        """The default study name, derived from the data file, the estimator and the options."""
        text = json.dumps(self.definition, sort_keys=True)
        short = hashlib.sha256(text.encode()).hexdigest()[:_SHORT]
        stem = re.sub(r"[^\w.-]+", "-", Path(self.data).name.split(".")[0]).strip("-") or "data"
        return f"{stem}-{self.estimator}-{short}"

    def command_line(self, name: str, archive: str | None) -> str:
        """The request as a shell command, without options that have their default value.

        Args:
            name: the study name.
            archive: the archive; None for the default one.
        """
        words = ["rankwise", "tune", self.data, "--target", self.target]
        for field in fields(self)[3:]:  # after the data file, its digest and the target
            value, option = getattr(self, field.name), "--" + field.name.replace("_", "-")
            if value == field.default:
                continue
            if isinstance(value, bool):
                words.append(option if value else option.replace("--", "--no-"))
            else:
                words += [option, str(value)]
        if name != self.name:
            words += ["--name", name]
        if archive is not None:
            words += ["--archive", archive]
        return shlex.join(words)

    def to_json(self) -> str:
        """The request as JSON, with absolute paths."""
        paths = {"data": self.data, "report": self.report, "save": self.save}
        absolute = {k: None if v is None else str(Path(v).absolute()) for k, v in paths.items()}
        return json.dumps({**asdict(self), **absolute})

    @classmethod
    def from_json(cls, text: str) -> Request:
        """A request from its JSON; options that this version does not know are ignored."""
        known = {field.name for field in fields(cls)}
        return cls(**{key: value for key, value in json.loads(text).items() if key in known})

    def check_same(self, attributes: Mapping[str, Any], name: str) -> None:
        """Raise `StudyMismatchError` if a study was created with other data or options.

        Args:
            attributes: user attributes of the stored study.
            name: study name, for the message.
        """
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
        for key in {**before.definition, **self.definition}:
            value, now = getattr(before, key), getattr(self, key)
            if now != value:
                raise StudyMismatchError(
                    f"study {name!r} was begun with --{key} {_shown(value)}, not {_shown(now)}; "
                    "use that, or begin another study with --name"
                )


def _shown(value: Any) -> str:
    return "unset" if value is None else str(value)


def file_digest(path: str | Path) -> str:
    """SHA-256 of a file's content."""
    digest = hashlib.sha256()
    with Path(path).open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()
