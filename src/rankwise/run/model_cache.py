"""Keeps the models that methods learn from source tasks, so that each is learnt once."""

from __future__ import annotations

import hashlib
import logging
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock

import rankwise
from rankwise import methods
from rankwise._core.atomic_write import private_folder
from rankwise.acquisition.functions import make_acquisition
from rankwise.errors import ModelFileError, RunWarning
from rankwise.history.task import BUILTIN, TaskSet
from rankwise.methods import build_transfer as builders
from rankwise.run.optimizer import Optimizer
from rankwise.space.encoder import Encoder
from rankwise.strategies.base import Strategy
from rankwise.strategies.guard.strategy import GuardedStrategy
from rankwise.strategies.guard.trust import Witnesses
from rankwise.strategies.model_based import ModelStrategy
from rankwise.surrogates.cost import CostPrior

if TYPE_CHECKING:
    from rankwise.surrogates.empirical_bayes.surrogate import EmpiricalBayes

_KNOWN = ("auto", "eb-gp")
"""Methods that can use what `eb-gp` learnt."""
_HOW = ("model", "previous", "checkpoint", "progress", "guard")
"""Options that do not change the learnt model."""

_ALONE = {"guard": False}  # the learnt model is the same with and without the guard
_KEY_LENGTH = 32
_logger = logging.getLogger(__name__)


class NotKept(RunWarning):
    """Warning: the learnt model is used but could not be saved."""


_REVISION = 5  # increased when the same tasks give another model within a version


def learnt_optimizer(
    method: str,
    encoder: Encoder,
    past: TaskSet,
    folder: Path | None,
    known: EmpiricalBayes | None = None,
    **options: Any,
) -> Optimizer:
    """Make an optimizer that has learnt from source tasks; load its model if it was kept before.

    The name of a kept model is a digest of everything it depends on: the source tasks, the method
    and its options, and the version of the library. Processes that need the same model at the same
    time wait for the first. An interrupted training is continued, and a method that can extend a
    model starts from its newest one in the folder. A model that cannot be read is learnt again,
    and one that cannot be saved is used without being saved. The folder may be deleted any time.

    If the acquisition function needs seconds, those of the source tasks are its prior.

    Args:
        method: name of the method.
        encoder: encoder of the space.
        past: source tasks; a method without transfer ignores them.
        folder: folder of the kept models, created if needed; None keeps no models.
        known: what `eb-gp` learnt from some of the tasks; their functions are not fitted again.
        **options: options of the method.
    """
    optimizer = _learnt_optimizer(method, encoder, past, folder, known, **options)
    if not methods.get(method).transfer:
        return optimizer
    strategy = _with_seconds(optimizer.strategy, past)
    if strategy is optimizer.strategy:
        return optimizer
    return optimizer.with_strategy(strategy).restarted(seed=0)


def _with_seconds(strategy: Strategy, past: TaskSet) -> Strategy:
    """The strategy with what source tasks say about seconds, if its acquisition needs that.

    With a guard, the transfer method gets it.
    """
    if isinstance(strategy, GuardedStrategy):
        transfer = _with_seconds(strategy.transfer, past)
        return strategy if transfer is strategy.transfer else replace(strategy, transfer=transfer)
    if not (isinstance(strategy, ModelStrategy) and strategy.acquisition.needs_cost):
        return strategy
    prior = CostPrior.of(past.everything, lambda: strategy.cost_surrogate(0))
    alone = strategy.alone and replace(strategy.alone, cost_prior=prior)
    return replace(strategy, cost_prior=prior, alone=alone)


def _learnt_optimizer(
    method: str,
    encoder: Encoder,
    past: TaskSet,
    folder: Path | None,
    known: EmpiricalBayes | None = None,
    **options: Any,
) -> Optimizer:
    """Make the optimizer of `learnt_optimizer`, without what source tasks say about seconds."""
    row = methods.get(method)
    if not row.transfer:
        return Optimizer(encoder, method=method, seed=0, **options)
    if known is not None and method in _KNOWN and not set(options) - {"progress"}:
        if all(task.context.get(BUILTIN) == 1.0 for task in past.everything):
            return Optimizer(encoder, method=method, model=known, seed=0, **options)
        options = {"previous": known, **options}
    path = model_path(method, past, folder, options)
    if path is None:
        return Optimizer(encoder, method=method, tasks=past, seed=0, **options)
    folder = path.parent
    if (kept := _read(path, method, encoder, past, options)) is not None:
        return kept
    try:
        private_folder(folder)
        with FileLock(path.with_suffix(".lock")):
            again = _read(path, method, encoder, past, options, quiet=True)
            if (kept := again) is None:
                _logger.info(
                    "%s learns %d past studies; kept in %s", method, len(past.everything), folder
                )
                learnt = _learn(path, row, encoder, past, options)
                if learnt is not None:  # there was nothing to learn and nothing to save
                    return learnt
                kept = _read(path, method, encoder, past, options)
    except (OSError, ModelFileError) as error:
        with suppress(OSError):  # it may be damaged
            path.with_suffix(".checkpoint").unlink(missing_ok=True)
        warnings.warn(
            f"the model of the past studies cannot be saved in {folder} ({error}); it is learnt "
            "again the next time",
            NotKept,
            stacklevel=4,  # the caller of `minimize`
        )
    if kept is None:
        kept = Optimizer(encoder, method=method, tasks=past, seed=0, **options)
    return kept


def kept_optimizer(
    method: str, encoder: Encoder, digest: str, folder: Path | None, **options: Any
) -> Optimizer | None:
    """Make the optimizer that `learnt_optimizer` would load, without the source tasks.

    Args:
        method: name of the method.
        encoder: encoder of the space.
        digest: digest of the source tasks, at least one (`TaskSet.digest`).
        folder: folder of the kept models.
        **options: options of the method.

    Returns:
        The optimizer; None if no model is kept, if the method does not keep any, or if it needs
        the seconds of the source tasks, which no model has.
    """
    acquisition = options.get("acquisition")
    if acquisition is not None and make_acquisition(acquisition).needs_cost:
        return None
    path = _model_path(method, digest, folder, options)
    if path is None:
        return None
    if options.get("guard") is True:
        try:
            options = {**options, "guard": Witnesses.load(_witness_path(digest, path.parent))}
        except ModelFileError:
            return None
    # Who gets None calls `learnt_optimizer`, which says what is wrong with the file.
    return _read(path, method, encoder, None, options, quiet=True)


def model_path(
    method: str, past: TaskSet, folder: Path | None, options: Mapping[str, Any]
) -> Path | None:
    """Return the file in which `learnt_optimizer` keeps a model; None if it keeps none.

    The arguments are those of `learnt_optimizer`.
    """
    return _model_path(method, past.digest, folder, options) if past.everything else None


def _model_path(
    method: str, digest: str, folder: Path | None, options: Mapping[str, Any]
) -> Path | None:
    row = methods.get(method)
    if folder is None or not row.transfer:
        return None
    if "model" not in row.options or "model" in options:
        return None
    return folder / f"{method}-{_key(row, digest, options)}.safetensors"


def _learn(
    path: Path, row: methods.Method, encoder: Encoder, past: TaskSet, options: dict[str, Any]
) -> Optimizer | None:
    """Learn and save a model; returns the optimizer only if there is nothing to save."""
    helps = {"checkpoint": path.with_suffix(".checkpoint"), "previous": _newest(path, row.name)}
    helps = {name: value for name, value in helps.items() if name in row.options}
    if helps.get("previous") is not None:  # it has the functions of own tasks, too
        options = {name: value for name, value in options.items() if name != "previous"}
    optimizer = Optimizer(
        encoder, method=row.name, tasks=past, seed=0, **{**helps, **options, **_ALONE}
    )
    learner = optimizer.strategy.learner
    if learner is None:
        return optimizer
    learner.save(path, fingerprint=encoder.fingerprint)
    return None


def _read(
    path: Path,
    method: str,
    encoder: Encoder,
    past: TaskSet | None,
    options: dict[str, Any],
    *,
    quiet: bool = False,
) -> Optimizer | None:
    """An optimizer with a kept model; None if the file is missing or cannot be read.

    With `quiet`, there is no message about a file that cannot be read.
    """
    if not path.exists():
        return None
    # A model does not contain how well source tasks agree.
    if past is not None and options.get("guard") is True:
        options = {**options, "guard": _witnesses(past, path.parent)}
    try:
        return Optimizer(encoder, method=method, model=path, seed=0, **options)
    except ModelFileError as error:
        _logger.log(logging.DEBUG if quiet else logging.WARNING, "%s; learning it again", error)
        return None


def _witnesses(past: TaskSet, folder: Path) -> Witnesses:
    """Load or compute the `Witnesses` of source tasks."""
    path = _witness_path(past.digest, folder)
    with suppress(ModelFileError):
        return Witnesses.load(path)
    found = None
    try:
        with FileLock(path.with_suffix(".lock")):
            with suppress(ModelFileError):
                return Witnesses.load(path)
            found = builders.witnesses(past)
            found.save(path)
    except (OSError, ModelFileError):  # they cannot be saved
        found = found or builders.witnesses(past)
    return found


def _witness_path(digest: str, folder: Path) -> Path:
    return folder / f"past-{_digest(digest)}.witnesses"  # a file of tensors, but no model


def _newest(path: Path, method: str) -> Path | None:
    """The newest other model of a method in the same folder, or None."""
    found = set(path.parent.glob(f"{method}-{'?' * _KEY_LENGTH}.safetensors")) - {path}
    return max(found, key=lambda path: path.stat().st_mtime, default=None)


def _key(row: methods.Method, digest: str, options: Mapping[str, Any]) -> str:
    settings = {k: v for k, v in {**row.options, **options}.items() if k not in _HOW}
    return _digest(row.name, digest, sorted(settings.items()))


def _digest(*facts: Any) -> str:
    """Digest of facts, of the library version and of the learning revision."""
    everything = (rankwise.__version__, _REVISION, *facts)
    return hashlib.sha256(repr(everything).encode()).hexdigest()[:_KEY_LENGTH]
