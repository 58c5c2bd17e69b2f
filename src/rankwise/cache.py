"""What methods have learnt from past tasks, kept in a folder and learnt once."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from filelock import FileLock

import rankwise
from rankwise import builders, methods
from rankwise.optimizer import Optimizer
from rankwise.space import Encoder
from rankwise.task import TaskSet
from rankwise.trust import Expectation

_HOW = ("model", "previous", "checkpoint", "progress", "guard")
"""Options that do not change what is learnt."""

_ALONE = {"guard": False}  # what is learnt is the same, guarded or not
_KEY_LENGTH = 32
_REVISION = 4  # raised when the same past is learnt in another way, within a version


def learnt_optimizer(
    method: str, encoder: Encoder, past: TaskSet, folder: Path, **options: Any
) -> Optimizer:
    """An optimizer of a method that has learnt the past, now or at some earlier time.

    A model is kept under a name made from all that went into it: the numbers of the past tasks,
    the method and its options, and the version of the library. Several processes that want
    the same one at once wait for the first. Training that was interrupted goes on, and a method
    that can add to what it knows begins with the newest model of its own in the folder.

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
    if "model" not in row.options or "model" in options or not len(past):
        return Optimizer(encoder, method=method, tasks=past, seed=0, **options)
    path = folder / f"{method}-{_key(row, past, options)}.safetensors"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(path.with_suffix(".lock")):
            if not path.exists():
                helps = {
                    "checkpoint": path.with_suffix(".checkpoint"),
                    "previous": _newest(folder, method),
                }
                helps = {name: value for name, value in helps.items() if name in row.options}
                optimizer = Optimizer(
                    encoder, method=method, tasks=past, seed=0, **{**helps, **options, **_ALONE}
                )
                learner = getattr(optimizer.strategy, "learner", None)
                if learner is None:  # the past had nothing to teach
                    return optimizer
                learner.save(path, fingerprint=encoder.fingerprint)
    if options.get("guard") is True:  # a model does not know how past tasks agree
        options["guard"] = _expectation(past, folder)
    return Optimizer(encoder, method=method, model=path, seed=0, **options)


def _expectation(past: TaskSet, folder: Path) -> Expectation:
    """How far past tasks put each other in order, found out now or at some earlier time."""
    path = folder / f"agreement-{_digest(past.digest)}.json"
    if (known := _read_expectation(path)) is not None:
        return known
    try:
        with FileLock(path.with_suffix(".lock")):
            if (known := _read_expectation(path)) is not None:
                return known
            found = builders.expectation_of(builders.witnesses(past))
            unfinished = path.with_suffix(".unfinished")
            unfinished.write_text(json.dumps(asdict(found)), encoding="utf-8")
            unfinished.replace(path)
            return found
    except OSError:  # it cannot be kept
        return builders.expectation_of(builders.witnesses(past))


def _read_expectation(path: Path) -> Expectation | None:
    """What was kept; None if it is not there, or damaged."""
    try:
        return Expectation(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def _newest(folder: Path, method: str) -> Path | None:
    """The newest model of a method, if there is one."""
    found = folder.glob(f"{method}-{'?' * _KEY_LENGTH}.safetensors")
    return max(found, key=lambda path: path.stat().st_mtime, default=None)


def _key(row: methods.Method, past: TaskSet, options: dict[str, Any]) -> str:
    settings = {k: v for k, v in {**row.options, **options}.items() if k not in _HOW}
    return _digest(row.name, past.digest, sorted(settings.items()))


def _digest(*facts: Any) -> str:
    """Of facts, and of the way in which they are learnt from."""
    everything = (rankwise.__version__, _REVISION, *facts)
    return hashlib.sha256(repr(everything).encode()).hexdigest()[:_KEY_LENGTH]
