"""Compare rules for the first proposal on the built-in past, leaving data sets out.

    python -m benchmarks.builtin.first_proposal

Each data set is held out with its near-duplicates. A rule chooses one of its recorded
configurations from what the other data sets predict, weighted by similarity. The table is
`benchmarks/results/builtin-first.json`.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
from scipy.stats import rankdata

from benchmarks.builtin.collect import ROOT
from benchmarks.builtin.evaluate_past import METRIC, Corpus
from benchmarks.builtin.library import KINDS
from rankwise.builtin.records import VERSION, available, read_records
from rankwise.surrogates.empirical_bayes.past_functions import SourcePast
from rankwise.surrogates.empirical_bayes.source_weights import different_tasks

OUT = ROOT / "benchmarks" / "results" / "builtin-first.json"
Rule = Callable[[np.ndarray, np.ndarray], int]
"""Chooses a configuration from predicted scores (n, T) and weights (T,); row 0 is the default."""


def best_mean(scores: np.ndarray, weights: np.ndarray) -> int:
    return int(np.argmin(scores @ weights))


def chances(scores: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Weighted share (n,) of data sets on which each configuration beats the default."""
    advantage = scores[:1] - scores
    share: np.ndarray = (np.sign(advantage) / 2 + 0.5) @ weights
    return share


def gated(least: float) -> Rule:
    """The best mean if its chance is large enough, else the default."""

    def choose(scores: np.ndarray, weights: np.ndarray) -> int:
        best = best_mean(scores, weights)
        return best if chances(scores, weights)[best] >= least else 0

    return choose


def lower_bound(scores: np.ndarray, weights: np.ndarray) -> int:
    """The largest advantage over the default, less its standard error."""
    advantage = scores[:1] - scores
    mean = advantage @ weights
    variance = np.square(advantage - mean[:, None]) @ weights * np.square(weights).sum()
    return int(np.argmax(mean - np.sqrt(variance)))


RULES: dict[str, Rule] = {
    "best weighted mean (`eb-gp`)": best_mean,
    "the default if the best mean beats it with probability < .45": gated(0.45),
    "the default if the best mean beats it with probability < .5": gated(0.5),
    "the default if the best mean beats it with probability < .55": gated(0.55),
    "largest probability of beating the default": lambda s, w: int(np.argmax(chances(s, w))),
    "largest advantage less its standard error": lower_bound,
    "best weighted mean of ranks": lambda s, w: int(np.argmin(rankdata(s, axis=0) @ w)),
    "the default": lambda s, w: 0,
}


def held_out(corpus: Corpus) -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Predicted scores (n, T), weights (T,) and regret (n,) for each data set."""
    assert corpus.known is not None
    past = corpus.known.past
    assert isinstance(past, SourcePast)
    different = different_tasks(past.sources)
    names = [source.name for source in past.sources]
    found = []
    for task in corpus.tasks:
        if np.ptp(task.losses) == 0:
            continue
        weights = past.near(task.context).counts * different[names.index(task.name)]
        scores = np.stack([source(task.X) for source in past.sources], axis=1)
        regret = (task.losses - task.losses.min()) / np.ptp(task.losses)
        found.append((scores, weights / weights.sum(), regret))
    return found


def main() -> None:
    regret: dict[str, list[float]] = {name: [] for name in RULES}
    shares: dict[str, list[float]] = {name: [] for name in RULES}
    for kind in KINDS:
        for learner in available(kind):
            cases = held_out(Corpus(read_records(learner, kind), METRIC[kind]))
            for name, rule in RULES.items():
                chosen = [(r[rule(scores, weights)], r[0]) for scores, weights, r in cases]
                better, worse = sum(a < b for a, b in chosen), sum(a > b for a, b in chosen)
                regret[name].append(float(np.mean([a for a, _ in chosen])))
                shares[name] += [better / (better + worse)] if better + worse else []
    rows = [
        [
            name,
            f"{np.mean(regret[name]):.4f}",
            f"{np.mean(shares[name]):.0%}" if shares[name] else "-",
        ]
        for name in RULES
    ]
    columns = ["rule", "mean normalised regret", "better than the default, ties excluded"]
    about = f"First proposal, mean over {len(regret['the default'])} learners (by kind)."
    table = {"about": about, "columns": [{"name": name} for name in columns], "rows": rows}
    content = {
        "title": "Rules for the first proposal from the built-in past",
        "date": "2026-11-19",
        "versions": f"built-in past {VERSION}",
        "machine": "2 cores",
        "command": ["python -m benchmarks.builtin.first_proposal"],
        "protocol": "Each data set is held out with its near-duplicates; a rule chooses among its "
        "recorded configurations, by accuracy or R².",
        "tables": {"rules": table},
    }
    OUT.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
