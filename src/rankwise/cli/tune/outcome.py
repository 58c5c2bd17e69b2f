"""The output of `rankwise tune`: best configuration, score on held-out rows, Python code."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from rankwise._core.words import count
from rankwise.cli.console import say, show_table
from rankwise.cli.tune.code import code_of
from rankwise.cli.tune.plain_code import plain_code
from rankwise.cli.tune.plan import MODEL, threads_for
from rankwise.cli.tune.scores import HeldOut, guessing, held_out
from rankwise.cli.tune.session import Tuned, resume_command
from rankwise.history.task import OK
from rankwise.history.trial import Trial
from rankwise.integrations.sklearn.objectives import SECONDS
from rankwise.tabular.problem import Problem

_SHOWN = 12  # configurations of the front in the terminal
_TEMPLATE = """\
{imports}

from rankwise.tabular import {names}

problem = Problem.of(read_table({data}), target={target!r}, task={task!r}){sample}
model = {model}
model.fit(problem.X, problem.y)
print({show})
"""


def facts_of(tuned: Tuned) -> dict[str, Any]:
    """The result of a search as the dict that `--json` prints and `show` formats."""
    plan, search = tuned.plan, tuned.search
    best, chosen = _best(tuned), _chosen(tuned)
    default = plan.estimators[chosen].get_params()
    return {
        "study": tuned.name,
        "archive": tuned.address,
        "data": plan.request.data,
        "target": plan.problem.target,
        "task": plan.problem.kind,
        "metric": plan.metric,
        "metrics": list(plan.objectives) or [plan.metric],
        "front": _front(tuned),
        "estimator": chosen,
        "trials": len(search.result_.trials),
        "wanted": plan.request.trials,
        "seconds": search.result_.seconds,
        "stopped": search.result_.stopped,
        "failed": _failed(search.result_.trials),
        "unsaved": search.result_.unsaved,
        "past": list(search.past_),
        "builtin": list(search.builtin_),
        "past_text": search.past_text_.replace("past=None", "--past none"),
        "trust": search.trust_,
        "evidence": None if search.evidence_ is None else str(search.evidence_),
        "best": {
            "trial": None if best is None else best.number,
            "score": float(search.best_score_),
            "params": {
                name: {"value": value, "default": default.get(f"{MODEL}__{name}")}
                for name, value in _params(search.best_params_).items()
            },
        },
        "held_out": _held_out(tuned, chosen),
        "without_history": None
        if tuned.compared is None
        else {"study": tuned.compared.study_name_, "score": float(tuned.compared.best_score_)},
        "code": _code(tuned),
        "report": None if tuned.report is None else str(tuned.report),
        "model": None if tuned.model is None else str(tuned.model),
        "problem": tuned.problem,
        "notes": list(plan.notes),
        "resume": resume_command(tuned.name, tuned.address),
    }


def show(facts: dict[str, Any]) -> None:
    """Print a result: tables and code on standard output, messages on standard error."""
    best, held, failed = facts["best"], facts["held_out"], facts["failed"]
    if failed["trials"]:
        say(f"{count(failed['trials'], 'trial')} failed; the last error was: {failed['error']}")
    if facts["unsaved"]:
        say(f"not written to the archive: trials {facts['unsaved']}")
    if facts["past_text"]:
        trust = "" if facts["trust"] is None else f"; transfer trust {facts['trust']:.0%}"
        why = "" if facts["evidence"] is None else f" ({facts['evidence']})"
        say(f"{facts['past_text']}{trust}{why}")
    rows = [(name, *map(_value, v.values())) for name, v in best["params"].items()]
    title = f"best of {count(facts['trials'], 'trial')}: {facts['estimator']}"
    if facts["front"]:
        _show_front(facts)
        title = f"chosen: trial {best['trial']}, {facts['estimator']}"
    show_table(("hyperparameter", "best", "default"), rows, title=title)
    scores = [("tuned", best["score"], *_score(held, "tuned"))]
    if held:
        scores += [(what, None, *_score(held, what)) for what in ("default", "guessing")]
    columns = (facts["metric"], "cross-validation", "held-out rows", "95 % interval")
    show_table(columns, scores, numbers=3)
    say(_verdict(facts))
    if facts["without_history"]:
        say(f"without history: {facts['without_history']['score']:.5g} in cross-validation")
    print(f"\n{facts['code']}")
    if facts["report"]:
        say(f"report: {facts['report']}")
    if facts["model"]:
        say(f"model: {facts['model']} (rankwise predict {facts['model']} new.csv)")
    if facts["archive"] != "none":
        more = max(facts["wanted"], facts["trials"])
        left = facts["trials"] < facts["wanted"]
        say(f"continue: {facts['resume']}" + ("" if left else f" --trials {2 * more}"))


def _show_front(facts: dict[str, Any]) -> None:
    """Print the Pareto front; at most `_SHOWN` configurations, spread evenly."""
    front, names, best = facts["front"], facts["metrics"], facts["best"]["trial"]
    some = np.linspace(0, len(front) - 1, min(len(front), _SHOWN)).round().astype(int)
    shown = [one for k, one in enumerate(front) if k in some or one["trial"] == best]
    rows = [
        (
            f"{one['trial']}{' (chosen)' * (one['trial'] == best)}",
            one["estimator"],
            *(f"{one['values'][name]:.5g}" for name in names),
        )
        for one in shown
    ]
    left = "" if len(shown) == len(front) else f", {len(shown)} of them shown"
    title = f"Pareto front: {count(len(front), 'configuration')}{left}"
    show_table(("trial", "estimator", *names), rows, title=title)


def _front(tuned: Tuned) -> list[dict[str, Any]]:
    """The trials of the Pareto front, best in the first metric first; none with one metric."""
    result, names = tuned.search.result_, tuned.plan.objectives
    if not names:
        return []
    table = tuned.search.cv_results_
    params = dict(zip(table["trial"], table["params"], strict=True))
    front = sorted(result.front, key=lambda t: t.values[0], reverse=names[0] not in SECONDS)
    return [
        {
            "trial": trial.number,
            "estimator": _estimator(tuned, trial),
            "values": dict(zip(names, trial.values, strict=True)),
            "params": _params(params[trial.number]),
        }
        for trial in front
    ]


def _failed(trials: list[Trial]) -> dict[str, Any]:
    """The number of failed trials and the last error message."""
    failed = [trial.error for trial in trials if trial.status != OK]
    return {"trials": len(failed), "error": failed[-1] if failed else ""}


def _value(value: Any) -> str:
    return f"{value:.5g}" if isinstance(value, float) else repr(value)


def _score(held: dict[str, Any] | None, what: str) -> tuple[float | None, str | None]:
    if held is None:
        return None, None
    interval = held[what]["interval"]
    return held[what]["score"], None if interval is None else _range(interval)


def _range(interval: Sequence[float]) -> str:
    return f"{interval[0]:.4g} to {interval[1]:.4g}"


def _verdict(facts: dict[str, Any]) -> str:
    """A sentence on the score to expect on new rows."""
    held, score = facts["held_out"], facts["best"]["score"]
    optimistic = (
        f"the best of {count(facts['trials'], 'cross-validation score')} is too optimistic: "
        f"expect less than {score:.5g} on new rows"
    )
    if held is None:
        return f"{optimistic} (--holdout 0.2 estimates how much)"
    tuned, rows = held["tuned"], count(held["rows"], "held-out row")
    if not math.isfinite(tuned["score"]):
        return (
            f"{facts['metric']} cannot be computed on the {rows}{_why(held)}; {optimistic} "
            "(a larger --holdout may estimate how much)"
        )
    known = f"cross-validation: {score:.4g}"
    if tuned["interval"] is None:
        how = f"from {rows}, too few to say how accurate that is"
    else:
        how = f"95 % interval {_range(tuned['interval'])}, from {rows}"
    return f"on new rows expect {tuned['score']:.4g} ({how}; {known}), {_gain(held['gain'])}"


def _why(held: dict[str, Any]) -> str:
    missing = held["missing"]
    return f": they have no row of class {', '.join(map(repr, missing))}" if missing else ""


def _gain(gain: dict[str, Any]) -> str:
    if gain["score"] == 0:
        return "the same as with the default configuration"
    text = f"{gain['score']:+.2g}"
    if gain["error"] is not None:
        text += f" (± {1.96 * gain['error']:.2g})"
    return f"{text} compared with the default configuration"


def _best(tuned: Tuned) -> Trial | None:
    """The trial whose configuration is fitted; of several metrics, `--choose` decides."""
    return tuned.search.result_.chosen(tuned.plan.choose)


def _chosen(tuned: Tuned) -> str:
    """The name of the estimator of the best trial."""
    return _estimator(tuned, _best(tuned))


def _estimator(tuned: Tuned, trial: Trial | None) -> str:
    """The name of the estimator of a trial."""
    names = list(tuned.plan.estimators)
    return names[0] if len(names) == 1 or trial is None else trial.configuration["estimator"]


def _params(params: dict[str, Any]) -> dict[str, Any]:
    """Parameters under the estimator's own names, without the prefix of the pipeline step."""
    prefix = f"{MODEL}__"
    return {name.rpartition(prefix)[2]: value for name, value in params.items() if prefix in name}


def _held_out(tuned: Tuned, chosen: str) -> dict[str, Any] | None:
    """Scores on the held-out rows: tuned, default configuration, constant predictions."""
    from sklearn.base import clone

    plan = tuned.plan
    if plan.held is None:
        return None
    with threads_for(len(plan.train)):
        default = clone(plan.estimators[chosen]).fit(plan.train.X, plan.train.y)
        best = held_out(tuned.search.best_estimator_, plan.held, plan.metric)
        usual = held_out(default, plan.held, plan.metric)
    gain, error = best.gain(usual)
    guess = guessing(plan.train, plan.held, plan.metric)
    return {
        "rows": len(plan.held),
        "missing": _missing(plan.held),
        "tuned": _facts(best),
        "default": _facts(usual),
        "guessing": {"score": guess, "error": None, "interval": None},
        "gain": {"score": gain, "error": error if error > 0 else None},
    }


def _facts(found: HeldOut) -> dict[str, Any]:
    """A score with what is known about its accuracy; None stands for what cannot be estimated."""
    known = math.isfinite(found.interval[0])
    return {
        "score": found.score,
        "error": found.error if found.error > 0 else None,
        "interval": list(found.interval) if known else None,
    }


def _missing(held: Problem) -> list[str]:
    """The classes that have no held-out row."""
    if held.classes is None:
        return []
    there = set(held.y.tolist())
    return [str(name) for k, name in enumerate(held.classes) if k not in there]


def _code(tuned: Tuned) -> str:
    """A program that fits the best configuration to all rows."""
    plan = tuned.plan
    plain = plain_code(plan, tuned.search.best_estimator_)
    if plain is not None:
        return plain
    imports, model = code_of(tuned.search.best_estimator_)
    own = {line for line in imports if line.startswith("from rankwise.")}
    names = {"Problem", "read_table", *(line.split()[-1] for line in own)}
    request, n = plan.request, len(plan.problem)
    header = request.header
    sample = ""
    if n > request.rows:
        sample = f"\nproblem = problem.sample({request.rows}, seed={request.seed})"
        sample += "  # as in the search; fitting all rows may be slow"
    classes = plan.problem.classes is not None
    predicted = "model.predict(problem.X.head())"
    return _TEMPLATE.format(
        imports="\n".join(sorted(imports - own)),
        names=", ".join(sorted(names)),
        data=repr(request.data) + ("" if header is None else f", header={header}"),
        target=plan.problem.target,
        task=plan.problem.kind,
        sample=sample,
        model=model,
        show=f"problem.classes[{predicted}]" if classes else predicted,
    )
