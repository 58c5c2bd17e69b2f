"""Built-in studies for a search space: which records fit it, and how they are matched.

A ready-made space contains the configurations of the records. In a space of the user's own,
hyperparameters are matched by name, with the synonyms of the boosting libraries; evaluations
outside of its ranges and choices are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwise.builtin.learnt import learnt_surrogate
from rankwise.builtin.metrics import recorded_metric
from rankwise.builtin.records import VERSION, Records, available, read_records
from rankwise.builtin.tasks import Placed, source_tasks
from rankwise.errors import ConfigurationError, is_number
from rankwise.estimators.estimator_choice import CHOOSER, chosen_options
from rankwise.estimators.estimator_space import EstimatorSpace
from rankwise.estimators.ready_space import ReadySpace
from rankwise.estimators.ready_spaces import rows_in
from rankwise.history.task import Task
from rankwise.space.encoder import Encoder
from rankwise.space.parameters import Choice, Parameter
from rankwise.surrogates.empirical_bayes.surrogate import EmpiricalBayes

_BOOSTING = {
    "eta": "learning_rate",
    "shrinkage_rate": "learning_rate",
    "num_boost_round": "n_estimators",
    "num_iterations": "n_estimators",
    "num_round": "n_estimators",
    "iterations": "n_estimators",
    "lambda": "reg_lambda",
    "lambda_l2": "reg_lambda",
    "l2_leaf_reg": "reg_lambda",
    "alpha": "reg_alpha",
    "lambda_l1": "reg_alpha",
    "gamma": "min_split_loss",
    "min_split_gain": "min_split_loss",
    "min_gain_to_split": "min_split_loss",
    "colsample_bytree": "colsample_bytree",
    "feature_fraction": "colsample_bytree",
    "bagging_fraction": "subsample",
    "min_child_samples": "min_data_in_leaf",
    "min_data_in_leaf": "min_data_in_leaf",
    "num_leaves": "num_leaves",
    "max_leaves": "num_leaves",
    "depth": "max_depth",
}
_BOOSTED = ("lightgbm", "xgboost", "catboost")


@dataclass(frozen=True)
class BuiltinPast:
    """Built-in studies that fit a search space.

    Attributes:
        tasks: the studies as source tasks.
        surrogate: what `eb-gp` learnt from them; None if it has to be learnt.
        learners: names of the learners.
        notes: sentences about what could not be matched.
    """

    tasks: tuple[Task, ...]
    surrogate: EmpiricalBayes | None
    learners: tuple[str, ...]
    notes: tuple[str, ...] = ()


def builtin_past(
    estimator: Any, space: EstimatorSpace, encoder: Encoder, scoring: str
) -> BuiltinPast | None:
    """The built-in studies for a search; None if there are none.

    Args:
        estimator: the estimator that is tuned.
        space: its search space; for several estimators, that of `choice_of`.
        encoder: encoder of the space.
        scoring: name of the scorer.

    Raises:
        ArchiveError: a file of the built-in past is damaged.
    """
    found = list(_rows(estimator, space))
    records = [read_records(row.name, kind) for _, _, row, kind in found]
    common = [
        m for m in (records[0].scores if records else ()) if all(m in r.scores for r in records)
    ]
    if not common:
        return None
    metric, exact = recorded_metric(scoring, common)
    notes = [] if exact else [f"{scoring} was not recorded: {metric} is used in its place"]
    parts, unmatched = [], set(encoder.names)
    for (option, step, row, _), known in zip(found, records, strict=True):
        prefix = (f"{option}:" if option else "") + (f"{step}__" if step else "")
        fixed = {CHOOSER: option} if option else {}
        if space.name:
            parts.append(Placed.of(known, encoder, prefix, fixed))
            matched = {prefix + hp.name for hp in known.hyperparameters}
        else:
            placed, matched = matched_part(known, row, encoder, space, prefix, fixed)
            parts += [placed] if placed is not None else []
        unmatched -= {*matched, *fixed}
    tasks = tuple(source_tasks(parts, metric))
    if not tasks:
        return None
    if unmatched:
        names = ", ".join(sorted(unmatched))
        notes.append(f"not in the built-in past, learnt from this study alone: {names}")
    learnt = None
    if space.name and len(parts) == 1:
        learnt = learnt_surrogate(records[0], metric, tasks)
    return BuiltinPast(tasks, learnt, tuple(row.name for _, _, row, _ in found), tuple(notes))


def sentence(builtin: BuiltinPast | None, own: int) -> str:
    """One line that says what a search learns from; "" if it is nothing."""
    parts = []
    if builtin is not None:
        names = " and ".join(builtin.learners)
        parts.append(f"{len(builtin.tasks)} built-in studies of {names} ({VERSION})")
    if own:
        parts.append(f"{own} of your own" if parts else f"{own} past studies of your own")
    if not parts:
        return ""
    notes = "".join(f"; {note}" for note in (builtin.notes if builtin is not None else ()))
    return f"learning from {' and '.join(parts)}{notes}; past=None turns this off"


def _rows(estimator: Any, space: EstimatorSpace) -> Iterator[tuple[str, str, ReadySpace, str]]:
    """Option ("" without a choice), step, ready-made space and kind of parts with records."""
    options = chosen_options(space) or {"": estimator}
    found = {option: list(rows_in(one)) for option, one in options.items()}
    # With two tuned parts in one pipeline, the records of neither describe the whole. If one of
    # several estimators has no records, nothing is known about how it compares with the others.
    known = [
        len(rows) == 1 and rows[0][1].name in available(rows[0][2]) for rows in found.values()
    ]
    if all(known):
        for option, [row] in found.items():
            yield option, *row


def matched_part(
    records: Records,
    row: ReadySpace,
    encoder: Encoder,
    space: EstimatorSpace,
    prefix: str,
    fixed: Mapping[str, Any],
) -> tuple[Placed | None, set[str]]:
    """Match records with a user's space by the names of the estimator's parameters.

    Returns:
        The matched records, or None, and the names of the hyperparameters that were matched.
    """
    everything = records.configurations(slice(0, len(records)))
    params = [row.decode(configuration) for configuration in everything]
    there = {
        canonical(name, records.learner): name
        for name in dict.fromkeys(k for p in params for k in p)
    }
    decoded = getattr(space.decode, "readers", {})  # labels of objects, and quantiles
    codes = np.full((len(records), len(encoder.names)), np.nan)
    kept, matched = np.ones(len(records), dtype=bool), set()
    for j, parameter in enumerate(encoder.parameters):
        if parameter.name in fixed:
            codes[:, j] = parameter.code(fixed[parameter.name])
        own = parameter.name.removeprefix(prefix)
        name = there.get(canonical(own, records.learner))
        if name is None or not parameter.name.startswith(prefix) or parameter.name in decoded:
            continue
        legal = np.zeros(len(records), dtype=bool)
        for i, one in enumerate(params):
            if name not in one:
                legal[i] = True  # inactive here: the default value
                continue
            code = _code(parameter, one[name])
            if code is not None:
                codes[i, j], legal[i] = code, True
        if not np.isnan(codes[legal, j]).all():
            matched.add(parameter.name)
            kept &= legal
    if not matched:
        return None, matched
    return Placed.of_codes(records, encoder, codes, kept), matched


def _code(parameter: Parameter, value: Any) -> float | None:
    """The code of a value, None if it is not legal; the nearest one in a list of numbers."""
    if isinstance(parameter, Choice) and parameter.ordered and is_number(value):
        numbers = [v for v in parameter.values if is_number(v)]
        if len(numbers) == len(parameter.values) and numbers[0] <= value <= numbers[-1]:
            value = min(numbers, key=lambda number: abs(number - value))
    try:
        return parameter.code(value)
    except ConfigurationError:
        return None


def canonical(name: str, learner: str) -> str:
    """The name of a parameter without the steps of a pipeline and without synonyms."""
    own = name.rpartition("__")[2]
    return _BOOSTING.get(own, own) if learner in _BOOSTED else own
