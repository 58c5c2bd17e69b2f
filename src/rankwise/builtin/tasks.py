"""Built-in records as source tasks of a search space."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from typing_extensions import Self

from rankwise.builtin.records import VERSION, Records, dataset_facts
from rankwise.history.build import build_task
from rankwise.history.task import BUILTIN, GROUP, Task
from rankwise.space.encoder import Encoder
from rankwise.space.parameters import Choice, Number
from rankwise.types import Array, Mask

_FEWEST = 5  # a data set with fewer usable evaluations is left out


@dataclass(frozen=True)
class Placed:
    """Records of a learner in a search space.

    Attributes:
        records: the records, with n evaluations.
        X: encoded configurations (n, d).
        kept: mask (n,) of the evaluations that belong to the space.
    """

    records: Records
    X: Array
    kept: Mask

    @classmethod
    def of(
        cls,
        records: Records,
        encoder: Encoder,
        prefix: str = "",
        fixed: Mapping[str, Any] | None = None,
    ) -> Self:
        """Encode records in a space that contains the learner's ready-made space.

        Args:
            records: the records.
            encoder: encoder of the space.
            prefix: text before each name in the space, such as "svc__" in a pipeline.
            fixed: hyperparameters with one value for this learner, such as the one that chooses
                the estimator.
        """
        codes = np.full((len(records), len(encoder.names)), np.nan)
        for hp, values in zip(records.hyperparameters, records.values, strict=True):
            j = encoder.names.index(prefix + hp.name)
            parameter = encoder.parameters[j]
            if isinstance(parameter, Number):
                codes[:, j] = parameter.nearest(values)
                continue
            assert isinstance(parameter, Choice)
            table = np.array([parameter.code(choice) for choice in hp.choices])
            active = ~np.isnan(values)
            codes[active, j] = table[values[active].astype(int)]
        for name, value in (fixed or {}).items():
            j = encoder.names.index(name)
            codes[:, j] = encoder.parameters[j].code(value)
        return cls.of_codes(records, encoder, codes)

    @classmethod
    def of_codes(
        cls, records: Records, encoder: Encoder, codes: Array, kept: Mask | None = None
    ) -> Self:
        """Encode codes (n, p); hyperparameters without a value get their default."""
        default = np.array(
            [
                p.code(encoder.default[p.name]) if p.name in encoder.default else np.nan
                for p in encoder.parameters
            ]
        )
        full = encoder.deactivate(np.where(np.isnan(codes), default, codes))
        everything = np.ones(len(records), dtype=bool)
        return cls(records, encoder.encode_codes(full), everything if kept is None else kept)


def source_tasks(parts: Sequence[Placed], metric: str) -> list[Task]:
    """One task per data set that all learners have, with their evaluations, sorted by name.

    Args:
        parts: the records of one or several learners in the same space.
        metric: a metric that all of them have.
    """
    rows: dict[str, list[tuple[Placed, np.ndarray]]] = {}
    for part in parts:
        for k, name in enumerate(part.records.datasets):
            where = part.records.rows(k)
            chosen = np.arange(where.start, where.stop)[part.kept[where]]
            rows.setdefault(name, []).append((part, chosen))
    return [
        _task(name, found, metric)
        for name, found in sorted(rows.items())
        if len(found) == len(parts) and sum(len(chosen) for _, chosen in found) >= _FEWEST
    ]


def _task(name: str, found: Sequence[tuple[Placed, np.ndarray]], metric: str) -> Task:
    records = found[0][0].records
    return build_task(
        np.concatenate([part.X[rows] for part, rows in found]),
        np.concatenate([part.records.scores[metric][rows] for part, rows in found]),
        direction=records.directions[metric],
        costs=np.concatenate([part.records.seconds[rows] for part, rows in found]),
        statuses=[s for part, rows in found for s in part.records.statuses(rows)],
        name=study_name(name),
        context=study_context(records, name),
    )


def study_context(records: Records, dataset: str) -> dict[str, float]:
    """The meta-features of a data set, marked as built-in, with the number of its group."""
    group = zlib.crc32(f"{records.kind} {records.groups[dataset]}".encode())
    return {**records.contexts[dataset], BUILTIN: 1.0, GROUP: float(group)}


def study_name(dataset: str) -> str:
    """The name of a built-in study in messages and reports."""
    return f"{dataset} (built-in {VERSION})"


def facts_of_study(name: str) -> dict[str, float]:
    """The meta-features of the data set of a built-in study; none if there is no such study.

    Args:
        name: name of the study, as `study_name` makes it, with any version.
    """
    dataset = name.partition(" (built-in ")[0]
    if dataset == name:
        return {}
    for known in dataset_facts().values():
        if dataset in known:
            return dict(known[dataset]["context"])
    return {}
