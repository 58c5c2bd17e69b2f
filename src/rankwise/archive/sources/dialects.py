"""The table exports of other tools: one rule for each, and how a table is recognised."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from rankwise.archive.sources.cells import parse
from rankwise.errors import ArchiveError, is_number

_NAMES = ("study", "study_name")


@dataclass(frozen=True)
class Dialect:
    """Meaning of the columns of one tool's tables.

    Attributes:
        name: the tool.
        marks: patterns of columns; a table of this tool has a column for each.
        params: prefix of the hyperparameters' columns; "" if every other column may be one.
        value: pattern of the column of the values, used if the user does not name a metric.
        metrics: prefixes and suffixes of the columns of metrics, such as "metrics.{}".
        study: columns of the study names; the first that exists is used.
        facts: prefixes of columns with facts about a study or its data set.
        hidden: prefix of facts that are not used.
        state: column of the states.
        seconds: columns whose sum is the duration, or one column with a duration as text.
        started: column of the start times.
        ended: column of the end times, if there is no duration.
        trial: column of the trials' ids, if a trial has several rows; the last one counts.
        step: column of the steps of these rows. A trial that was stopped at the last step of all
            trials is complete. Without a column of states, all others were stopped.
        run: column of the runs' ids.
        parent: column of the ids of the parent runs; their children are one study.
        title: column of the runs' names.
        direction: direction that is always the same in this tool.
        alone: True if a file without a column of study names is one study.
    """

    name: str
    marks: tuple[str, ...]
    params: str
    value: str = ""
    metrics: tuple[str, ...] = ("{}",)
    study: tuple[str, ...] = _NAMES
    facts: tuple[str, ...] = ()
    hidden: str = "mlflow."
    state: str = ""
    seconds: tuple[str, ...] = ()
    started: str = ""
    ended: str = ""
    trial: str = ""
    step: str = ""
    run: str = ""
    parent: str = ""
    title: str = ""
    direction: str | None = None
    alone: bool = True

    def value_column(self, where: object, columns: Sequence[str], metric: str | None) -> str:
        """The column of the values.

        Raises:
            ArchiveError: there is none, or there are several; the message lists the candidates.
        """
        if metric is not None:
            for form in self.metrics:
                if form.format(metric) in columns:
                    return form.format(metric)
            wrong = f"{where} has no column {metric!r}"
        else:
            found = [c for c in columns if self.value and fnmatchcase(c, self.value)]
            if len(found) == 1:
                return found[0]
            wrong = f"{where} has {len(found)} columns {self.value or 'value'!r}"
            wrong = f"{where} has no column {self.value or 'value'!r}" if not found else wrong
            if not self.value:
                wrong = f"{where} is a table of {self.name}, which has several outcomes"
        raise ArchiveError(f"{wrong}: say which one it is with metric= {self._outcomes(columns)}")

    def _outcomes(self, columns: Sequence[str]) -> str:
        special = [f for f in self.metrics if f != "{}"]
        forms = [re.escape(f).replace(re.escape("{}"), "(.+)") for f in special]
        found = [m[1] for c in columns for f in forms if (m := re.fullmatch(f, c))]
        if not found:
            found = [c for c in columns if not (self.params and c.startswith(self.params))]
            others = [c for c in found if not _BOOKKEEPING.fullmatch(c)]
            found = [c for c in others if _OUTCOME.fullmatch(c)] or others or found
        more = ", ..." if len(found) > 12 else ""
        return f"(one of {', '.join(c[:60] for c in found[:12])}{more})" if found else ""


PLAIN = Dialect("rankwise", (), "", value="value", study=("study",), alone=False)

_SKLEARN = Dialect(
    "scikit-learn (cv_results_)",
    ("param_*", "mean_test_*"),
    "param_",
    value="mean_test_*",
    metrics=("mean_test_{}", "{}"),
    seconds=("mean_fit_time", "mean_score_time"),
    direction="maximize",
)

DIALECTS = (
    Dialect(
        "Optuna (trials_dataframe)",
        ("params_*",),
        "params_",
        value="value*",
        metrics=("{}", "value_{}", "values_{}"),
        facts=("user_attrs_",),
        state="state",
        seconds=("duration",),
        started="datetime_start",
    ),
    Dialect(
        "MLflow (search_runs)",
        ("params.*", "metrics.*"),
        "params.",
        value="metrics.*",
        metrics=("metrics.{}", "{}"),
        study=(*_NAMES, "experiment_name", "experiment_id"),
        facts=("tags.",),
        state="status",
        started="start_time",
        ended="end_time",
        run="run_id",
        parent="tags.mlflow.parentRunId",
        title="tags.mlflow.runName",
    ),
    Dialect(
        "Ray Tune (get_dataframe)",
        ("config/*",),
        "config/",
        study=(*_NAMES, "experiment_tag_name"),
        seconds=("time_total_s",),
        started="",
    ),
    replace(
        _SKLEARN,
        name="scikit-learn (cv_results_ of successive halving)",
        marks=(*_SKLEARN.marks, "params", "iter", "n_resources"),
        trial="params",
        step="n_resources",
    ),
    _SKLEARN,
    Dialect(
        "Syne Tune",
        ("config_*", "st_*"),
        "config_",
        study=(*_NAMES, "tuner_name"),
        state="st_decision",  # the status is that of the moment, and so always InProgress
        seconds=("st_worker_time",),
        trial="trial_id",
        step="st_worker_iter",
    ),
    Dialect(
        "Weights & Biases (CSV export)",
        ("Name", "State", "Created", "Runtime"),
        "",
        study=(*_NAMES, "Sweep", "Group"),
        state="State",
        seconds=("Runtime",),
        started="Created",
    ),
)
"""The rules in the order in which they are tried; a table that fits none is `PLAIN`."""


def recognise(columns: Sequence[str]) -> Dialect:
    """The first dialect whose marks are all among the columns."""
    for dialect in DIALECTS:
        if all(any(fnmatchcase(c, mark) for c in columns) for mark in dialect.marks):
            return dialect
    return PLAIN


# ---------------------------------------------------------------------- doubtful columns

_OUTCOMES = (
    r"loss|logloss|log_loss|acc|accuracy|bal(anced)?_acc(uracy)?|auc|auroc|roc_auc|prauc|f1|f1_score|"
    r"rmse|mse|mae|mape|r2|score|error|err|perplexity|ppl|bleu|rouge|map|iou|dice|regret|reward|"
    r"nll|elbo|brier|mcc|kappa|ndcg|objective|metric"
)
_PARTS = r"val|valid|validation|train|training|test|eval|dev|best|mean|std|min|max|final|cv|avg"
_OUTCOME = re.compile(
    rf"(.*[_./ -])?({_OUTCOMES})|({_PARTS})[_./ -](.*[_./ -])?(precision|recall|{_OUTCOMES})"
    rf"([_./ -].*)?",
    re.IGNORECASE,
)
_BOOKKEEPING = re.compile(
    r"(.*[_./ -])?(date|datetime|timestamp|time|created|updated|duration|runtime|elapsed|walltime|"
    r"seconds|hostname|pid|uuid|start_time|end_time)|datetime_.*|"
    r"(unnamed: [\d.]+|index|id|run|run_id|run_name|trial|trial_id|trial_number|number|state|"
    r"status|name|notes|user|tags|host|commit|sweep|group|job ?type|epoch|step|global_step|"
    r"iteration|training_iteration|best_(epoch|step|iteration)|.*_per_sec(ond)?)|_(runtime|timestamp|step|wandb).*",
    re.IGNORECASE,
)
_DATE = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d.*)?|\d+ days \d\d:\d\d.*")


def doubtful(name: str, cells: Sequence[Any]) -> bool:
    """True for a column that looks like an outcome, a date or book-keeping.

    Outcomes are numbers, so a text column such as "loss" may be a hyperparameter.

    Args:
        name: name of the column.
        cells: its cells that are not empty.
    """
    if _BOOKKEEPING.fullmatch(name) or name.startswith(("user_attrs_", "system_attrs_")):
        return True
    some = cells[:50]
    if all(isinstance(cell, str) and _DATE.fullmatch(cell.strip()) for cell in some):
        return True
    return bool(_OUTCOME.fullmatch(name)) and all(is_number(parse(cell)) for cell in some)
