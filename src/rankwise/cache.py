"""What methods have learnt from past tasks, kept in a folder and learnt once."""

from __future__ import annotations

import hashlib
import logging
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

from filelock import FileLock

import rankwise
from rankwise import builders, methods
from rankwise.errors import ModelFileError, RunWarning
from rankwise.optimizer import Optimizer
from rankwise.space import Encoder
from rankwise.task import TaskSet
from rankwise.trust import Witnesses

_HOW = ("model", "previous", "checkpoint", "progress", "guard")
"""Options that do not change what is learnt."""

_ALONE = {"guard": False}  # what is learnt is the same, guarded or not
_KEY_LENGTH = 32
_logger = logging.getLogger(__name__)


class NotKept(RunWarning):
    """What was learnt is used, but it could not be kept for the next time."""


_REVISION = 4  # raised when the same past is learnt in another way, within a version


def learnt_optimizer(
    method: str, encoder: Encoder, past: TaskSet, folder: Path, **options: Any
) -> Optimizer:
    """An optimizer of a method that has learnt the past, now or at some earlier time.

    A model is kept under a name made from all that went into it: the numbers of the past tasks,
    the method and its options, and the version of the library. Several processes that want
    the same one at once wait for the first. Training that was interrupted goes on, and a method
    that can add to what it knows begins with the newest model of its own in the folder. A model
    that cannot be read is learnt again, and one that cannot be kept is used all the same: what is
    in the folder can be thrown away at any time.

    Args:
        method: its name.
        encoder: of the space.
        past: tasks to learn from; a method without transfer ignores them.
        folder: of the kept models; it is made if need be.
        **options: of the method.
    """
    row = methods.get(method)
    if not row.transfer:
        return Optimizer(encoder, method=method, seed=0, **options)
    if "model" not in row.options or "model" in options or not past.everything:
        return Optimizer(encoder, method=method, tasks=past, seed=0, **options)
    path = folder / f"{method}-{_key(row, past, options)}.safetensors"
    if (kept := _read(path, method, encoder, past, options)) is not None:
        return kept
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(path.with_suffix(".lock")):
            if (kept := _read(path, method, encoder, past, options)) is None:
                _logger.info(
                    "%s learns %d past studies; kept in %s", method, len(past.everything), folder
                )
                learnt = _learn(path, row, encoder, past, options)
                if learnt is not None:  # the past had nothing to teach
                    return learnt
                kept = _read(path, method, encoder, past, options)
    except (OSError, ModelFileError) as error:
        with suppress(OSError):  # maybe it was the damaged one of an earlier training
            path.with_suffix(".checkpoint").unlink(missing_ok=True)
        warnings.warn(
            f"what is learnt of the past cannot be kept in {folder} ({error}); it is learnt again "
            "the next time",
            NotKept,
            stacklevel=2,
        )
    if kept is None:
        kept = Optimizer(encoder, method=method, tasks=past, seed=0, **options)
    return kept


def _learn(
    path: Path, row: methods.Method, encoder: Encoder, past: TaskSet, options: dict[str, Any]
) -> Optimizer | None:
    """Learn the past and keep it; the optimizer itself if there is nothing to keep."""
    helps = {"checkpoint": path.with_suffix(".checkpoint"), "previous": _newest(path, row.name)}
    helps = {name: value for name, value in helps.items() if name in row.options}
    optimizer = Optimizer(
        encoder, method=row.name, tasks=past, seed=0, **{**helps, **options, **_ALONE}
    )
    learner = getattr(optimizer.strategy, "learner", None)
    if learner is None:
        return optimizer
    learner.save(path, fingerprint=encoder.fingerprint)
    return None


def _read(
    path: Path, method: str, encoder: Encoder, past: TaskSet, options: dict[str, Any]
) -> Optimizer | None:
    """An optimizer with a kept model; None if it is not there, or cannot be read."""
    if not path.exists():
        return None
    if options.get("guard") is True:  # a model does not know how past tasks agree
        options = {**options, "guard": _witnesses(past, path.parent)}
    try:
        return Optimizer(encoder, method=method, model=path, seed=0, **options)
    except ModelFileError as error:
        _logger.warning("%s; learning it again", error)
        return None


def _witnesses(past: TaskSet, folder: Path) -> Witnesses:
    """What past tasks say of a study, found out now or at some earlier time."""
    path = folder / f"past-{_digest(past.digest)}.witnesses"  # a file of tensors, but no model
    with suppress(ModelFileError):
        return Witnesses.load(path)
    found = None
    try:
        with FileLock(path.with_suffix(".lock")):
            with suppress(ModelFileError):
                return Witnesses.load(path)
            found = builders.witnesses(past)
            found.save(path)
    except (OSError, ModelFileError):  # it cannot be kept
        found = found or builders.witnesses(past)
    return found


def _newest(path: Path, method: str) -> Path | None:
    """The newest other model of a method beside a path, if there is one."""
    found = set(path.parent.glob(f"{method}-{'?' * _KEY_LENGTH}.safetensors")) - {path}
    return max(found, key=lambda path: path.stat().st_mtime, default=None)


def _key(row: methods.Method, past: TaskSet, options: dict[str, Any]) -> str:
    settings = {k: v for k, v in {**row.options, **options}.items() if k not in _HOW}
    return _digest(row.name, past.digest, sorted(settings.items()))


def _digest(*facts: Any) -> str:
    """Of facts, and of the way in which they are learnt from."""
    everything = (rankwise.__version__, _REVISION, *facts)
    return hashlib.sha256(repr(everything).encode()).hexdigest()[:_KEY_LENGTH]
