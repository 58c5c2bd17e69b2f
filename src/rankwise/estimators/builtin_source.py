"""The source "builtin:LEARNER": built-in studies for archives and samplers.

The address may name a kind and a metric, too: "builtin:svc:regression:mae". Parameters have the
names of the estimator's parameters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from rankwise.archive.archive import Archive
from rankwise.archive.past_study import PastStudy
from rankwise.archive.sources.base import Contents, ReadOptions
from rankwise.builtin.metrics import recorded_metric
from rankwise.builtin.records import KINDS, VERSION, Records, available, read_records
from rankwise.builtin.tasks import study_context, study_name
from rankwise.errors import ArchiveError, check_name, is_number
from rankwise.estimators.built_in import canonical
from rankwise.estimators.ready_spaces import ready
from rankwise.history.task import OK

PREFIX = "builtin:"
_ADDRESS = "builtin address"  # fact of a study: the address that it was read from
_DEFAULT = {"classification": "accuracy", "regression": "r2"}
Known = Mapping[str, BaseDistribution]


def belongs(address: str) -> bool:
    """True for "builtin:..."."""
    return address.startswith(PREFIX)


def read(address: str, options: ReadOptions) -> Contents:
    """Read built-in studies.

    Raises:
        UnknownNameError: there is no such learner, kind or metric; the message lists those that
            exist.
        ArchiveError: a file is damaged.
    """
    if options.direction is not None:
        raise ArchiveError(f"{address} knows its direction: leave out direction=")
    studies = studies_at(address, options.search_space, options.metric)
    return Contents(studies, origin=f"builtin://{VERSION}/{address.removeprefix(PREFIX)}")


def studies_at(address: str, known: Known, metric: str | None = None) -> list[PastStudy]:
    """The built-in studies of an address, with parameters as a study asks for them.

    Args:
        address: "builtin:LEARNER", "builtin:LEARNER:KIND" or "builtin:LEARNER:KIND:METRIC".
        known: distributions of the study; parameters are matched by name.
        metric: name of a metric or scorer, if the address has none.
    """
    learner, kinds, own = check_address(address)
    studies = []
    for k in kinds:
        records = read_records(learner, k)
        wanted = own or recorded_metric(metric or _DEFAULT[k], list(records.scores))[0]
        studies += _studies(address, records, wanted, known)
    return studies


def check_address(address: str) -> tuple[str, list[str], str]:
    """The learner, the kinds and the metric of an address; the metric may be "".

    Raises:
        UnknownNameError: there is no such learner, kind or metric.
        ArchiveError: the file that has the names of the metrics is damaged.
    """
    learner, kind, metric = (*address.removeprefix(PREFIX).split(":"), "", "", "")[:3]
    check_name("built-in past", learner, available())
    kinds = [k for k in KINDS if learner in available(k)]
    if kind:
        check_name("kind", kind, kinds)
        kinds = [kind]
    if metric:
        check_name("metric", metric, read_records(learner, kind).scores)
    return learner, kinds, metric


def fitted(archive: Archive, known: Known) -> Archive:
    """The archive with its built-in studies matched to the distributions of a study."""
    addresses = dict.fromkeys(
        s.context[_ADDRESS] for s in archive.studies if _ADDRESS in s.context
    )
    if not addresses or not known:
        return archive
    names = {s.name for s in archive.studies}
    others = [s for s in archive.studies if _ADDRESS not in s.context]
    found = [s for address in addresses for s in studies_at(address, known)]
    kept = [s for s in found if s.name in names]
    return Archive(
        [*others, *kept],
        origin=archive.origin,
        left_out=archive.left_out,
        objectives=archive.objectives,
    )


def synonym(name: str, names: Sequence[str]) -> str | None:
    """The first of some names that means the same parameter; None if there is none."""
    own = {canonical(name, ""), canonical(name, "lightgbm")}
    return next((n for n in names if own & {canonical(n, ""), canonical(n, "lightgbm")}), None)


def _studies(address: str, records: Records, metric: str, known: Known) -> list[PastStudy]:
    row = next(row for row in ready() if row.name == records.learner)
    configurations = records.configurations(slice(0, len(records)))
    params = [_plain(row.decode(dict(c)), c) for c in configurations]
    names = list(dict.fromkeys(name for one in params for name in one))
    asked = {canonical(name, records.learner): name for name in known}
    columns = {}
    for name in names:
        column = [one.get(name, _ABSENT) for one in params]
        if len({repr(v) for v in column} - {repr(_ABSENT)}) > 1:  # constants are no parameters
            target = asked.get(canonical(name, records.learner), name)
            columns[target] = _column(column, records, name, known.get(target))
    studies = []
    for k, dataset in enumerate(records.datasets):
        where = records.rows(k)
        rows = range(where.start, where.stop)
        values = records.scores[metric][where]
        kept = [i for i in rows if all(c[i] is not _OUTSIDE for c, _ in columns.values())]
        if not kept:
            continue
        inside = np.array(kept) - where.start
        chosen = [{n: c[i] for n, (c, _) in columns.items() if c[i] is not _ABSENT} for i in kept]
        status = records.statuses(where)
        studies.append(
            PastStudy(
                study_name(f"{dataset}, {records.learner}"),
                records.directions[metric],
                chosen,
                {name: d for name, (_, d) in columns.items()},
                values[inside],
                tuple(
                    status[i] if np.isfinite(values[i]) or status[i] != OK else "invalid"
                    for i in inside
                ),
                np.zeros(len(kept), dtype=bool),
                records.seconds[where][inside],
                {**study_context(records, dataset), _ADDRESS: address},
            )
        )
    return studies


_ABSENT: Any = object()  # None may be a choice
_OUTSIDE: Any = object()


def _plain(params: dict[str, Any], configuration: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters that Optuna can represent; those that make up another kind stay as they were."""
    scalar = {
        n: v for n, v in params.items() if v is None or isinstance(v, bool | int | float | str)
    }
    if len(scalar) < len(params):
        scalar |= {n: v for n, v in configuration.items() if n not in params}
    return scalar


def _column(
    values: list[Any], records: Records, name: str, known: BaseDistribution | None
) -> tuple[list[Any], BaseDistribution]:
    """The values of a parameter in the form of a distribution that is asked for, and their own."""
    numbers = [v for v in values if is_number(v)]
    hps = [
        hp
        for hp in records.hyperparameters
        if not hp.choices and (hp.name in (name, f"{name}_value") or hp.name.endswith(f"_{name}"))
    ]
    if isinstance(known, CategoricalDistribution) and hps:
        listed: list[Any] = [c for c in known.choices if is_number(c)]
        return [_nearest(v, listed, known.choices) for v in values], known
    if not hps or not numbers:
        choices = list(dict.fromkeys(v for v in values if v is not _ABSENT))
        return values, CategoricalDistribution(choices)
    low, high = min(hp.low for hp in hps), max(hp.high for hp in hps)
    low, high = min(low, *numbers), max(high, *numbers)
    log = any(hp.log for hp in hps) and low > 0
    whole = all(hp.integer for hp in hps) and not isinstance(known, FloatDistribution)
    column = [v if is_number(v) else _ABSENT for v in values]
    if whole or (
        isinstance(known, IntDistribution) and all(float(v).is_integer() for v in numbers)
    ):
        found = [v if v is _ABSENT else int(v) for v in column]
        return found, IntDistribution(int(low), int(high), log=log)
    return [v if v is _ABSENT else float(v) for v in column], FloatDistribution(
        float(low), float(high), log=log
    )


def _nearest(value: Any, listed: Sequence[float], choices: Sequence[Any]) -> Any:
    """The choice nearest to a number; `_OUTSIDE` if there is none."""
    if value is _ABSENT:
        return value
    if any(type(c) is type(value) and c == value for c in choices):
        return value
    if is_number(value) and listed and min(listed) <= value <= max(listed):
        return min(listed, key=lambda c: abs(c - value))
    return _OUTSIDE
