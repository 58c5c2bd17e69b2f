"""What `rankwise tune` ends with: the best configuration, an honest estimate, and code."""

from __future__ import annotations

from typing import Any

from rankwise.commands.code import code_of
from rankwise.commands.console import say, show_table
from rankwise.commands.plan import MODEL, threads_for
from rankwise.commands.scores import guessing, held_out
from rankwise.commands.tuning import Tuned, resume_command
from rankwise.optimizer import Trial
from rankwise.task import OK

_TEMPLATE = """\
{imports}

from rankwise.tabular import {names}

problem = Problem.of(read_table({data!r}), target={target!r}, task={task!r}){sample}
model = {model}
model.fit(problem.X, problem.y)
print({show})
"""


def facts_of(tuned: Tuned) -> dict[str, Any]:
    """All that is known in the end, for people and for JSON."""
    plan, search = tuned.plan, tuned.search
    best, chosen = search.result_.best_trial, _chosen(tuned)
    default = plan.estimators[chosen].get_params()
    return {
        "study": tuned.name,
        "archive": tuned.address,
        "data": plan.request.data,
        "target": plan.problem.target,
        "task": plan.problem.kind,
        "metric": plan.metric,
        "estimator": chosen,
        "trials": len(search.result_.trials),
        "wanted": plan.request.trials,
        "seconds": search.result_.seconds,
        "stopped": search.result_.stopped,
        "failed": _failed(search.result_.trials),
        "unsaved": search.result_.unsaved,
        "past": list(search.past_),
        "trust": search.trust_,
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
        "problem": tuned.problem,
        "notes": list(plan.notes),
        "resume": resume_command(tuned.name, tuned.address),
    }


def show(facts: dict[str, Any]) -> None:
    """The facts for people: tables and code on standard output, remarks on standard error."""
    best, held, failed = facts["best"], facts["held_out"], facts["failed"]
    if failed["trials"]:
        say(f"{failed['trials']} trials failed, the last one with: {failed['error']}")
    if facts["unsaved"]:
        say(f"not written to the archive: trials {facts['unsaved']}")
    if facts["past"]:
        trust = "" if facts["trust"] is None else f" (trust in them: {facts['trust']:.0%})"
        say(f"earlier studies of this space that were learnt from: {len(facts['past'])}{trust}")
    rows = [(name, *map(_value, v.values())) for name, v in best["params"].items()]
    title = f"best of {facts['trials']} trials: {facts['estimator']}"
    show_table(("hyperparameter", "best", "default"), rows, title=title)
    scores = [("tuned", best["score"], *_score(held, "tuned"))]
    if held:
        scores += [(what, None, *_score(held, what)) for what in ("default", "guessing")]
    columns = (facts["metric"], "cross-validation", "held-out rows", "standard error")
    show_table(columns, scores, numbers=3)
    say(_verdict(facts))
    if facts["without_history"]:
        say(f"without history: {facts['without_history']['score']:.5g} in cross-validation")
    print(f"\n{facts['code']}")
    if facts["report"]:
        say(f"report: {facts['report']}")
    if facts["archive"] != "none":
        more = max(facts["wanted"], facts["trials"])
        left = facts["trials"] < facts["wanted"]
        say(f"go on: {facts['resume']}" + ("" if left else f" --trials {2 * more}"))


def _failed(trials: list[Trial]) -> dict[str, Any]:
    failed = [trial.error for trial in trials if trial.status != OK]
    return {"trials": len(failed), "error": failed[-1] if failed else ""}


def _value(value: Any) -> str:
    return f"{value:.5g}" if isinstance(value, float) else repr(value)


def _score(held: dict[str, Any] | None, what: str) -> tuple[float | None, float | None]:
    return (None, None) if held is None else (held[what]["score"], held[what]["error"])


def _verdict(facts: dict[str, Any]) -> str:
    held, score = facts["held_out"], facts["best"]["score"]
    if held is None:
        return (
            f"the best of {facts['trials']} scores is a lucky one: expect less than {score:.5g} "
            "on new rows (--holdout 0.2 tells how much)"
        )
    gain, error = held["gain"]["score"], held["gain"]["error"]
    return (
        f"on new rows expect {held['tuned']['score']:.4g} (± {held['tuned']['error']:.2g}, from "
        f"{held['rows']} rows that the search did not see; cross-validation said {score:.4g}), "
        f"{gain:+.2g} (± {error:.2g}) against the default configuration"
    )


def _chosen(tuned: Tuned) -> str:
    """The name of the estimator that is best."""
    names = list(tuned.plan.estimators)
    best = tuned.search.result_.best_trial
    return names[0] if len(names) == 1 or best is None else best.configuration["estimator"]


def _params(params: dict[str, Any]) -> dict[str, Any]:
    """Parameters by the names that the estimator itself has for them."""
    prefix = f"{MODEL}__"
    return {name.rpartition(prefix)[2]: value for name, value in params.items() if prefix in name}


def _held_out(tuned: Tuned, chosen: str) -> dict[str, Any] | None:
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
        "tuned": {"score": best.score, "error": best.error},
        "default": {"score": usual.score, "error": usual.error},
        "guessing": {"score": guess, "error": None},
        "gain": {"score": gain, "error": error},
    }


def _code(tuned: Tuned) -> str:
    """A program that fits the best configuration to all rows."""
    plan = tuned.plan
    imports, model = code_of(tuned.search.best_estimator_)
    own = {line for line in imports if line.startswith("from rankwise.")}
    names = {"Problem", "read_table", *(line.split()[-1] for line in own)}
    request, n = plan.request, len(plan.problem)
    sample = ""
    if n > request.rows:
        sample = f"\nproblem = problem.sample({request.rows}, seed={request.seed})"
        sample += "  # as in the search; all rows may take long"
    classes = plan.problem.classes is not None
    predicted = "model.predict(problem.X.head())"
    return _TEMPLATE.format(
        imports="\n".join(sorted(imports - own)),
        names=", ".join(sorted(names)),
        data=request.data,
        target=plan.problem.target,
        task=plan.problem.kind,
        sample=sample,
        model=model,
        show=f"problem.classes[{predicted}]" if classes else predicted,
    )
