"""Compare lists of meta-features by which data sets are similar, on the built-in past.

    python -m benchmarks.builtin.similarities

Data sets are in the ten folds of `evaluate_past`. For each list and fold the bandwidth is chosen
on the other folds, whose functions `eb-gp` then uses for five trials on each held-out data set.
The prior of the models is the one that is shipped, which has seen all data sets. The table is
`benchmarks/results/builtin-similarities.json`.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence

import numpy as np

from benchmarks.builtin.collect import ROOT
from benchmarks.builtin.evaluate_past import FOLDS, METRIC, Corpus, regrets
from benchmarks.builtin.library import KINDS
from rankwise import methods
from rankwise.builtin.records import VERSION, available, read_records
from rankwise.surrogates.empirical_bayes.past_functions import SourcePast
from rankwise.surrogates.empirical_bayes.source_weights import COMPARED, FEATURES, Similarity
from rankwise.surrogates.empirical_bayes.surrogate import EmpiricalBayes

OUT = ROOT / "benchmarks" / "results" / "builtin-similarities.json"
TRIALS = 5
_BEST = tuple(name for name in COMPARED if name.startswith("best_landmark"))
LISTS: dict[str, Sequence[str]] = {
    "none: equal weights": (),
    "15 meta-features": FEATURES,
    "and the best landmark": (*FEATURES, *_BEST),
    "and differences of landmarks": tuple(name for name in COMPARED if name not in _BEST),
    "and both": COMPARED,
}


def model(corpus: Corpus, fold: int, compared: Sequence[str]) -> EmpiricalBayes:
    """What is shipped, with the functions of the other folds only."""
    assert corpus.known is not None and isinstance(corpus.known.past, SourcePast)
    place = {task.name: k for task, k in zip(corpus.tasks, corpus.folds, strict=True)}
    sources = [s for s in corpus.known.past.sources if place[s.name] != fold]
    past = SourcePast(sources, remember=True)
    similar = Similarity.learn(sources, lambda: past.probed, compared) if compared else None
    surrogate = copy.copy(corpus.known)
    surrogate.past = SourcePast(sources, remember=True, similarity=similar)
    return surrogate


def curves(corpus: Corpus, compared: Sequence[str]) -> np.ndarray:
    """Regret after each trial (T, TRIALS) on the data sets of a learner."""
    found = []
    for fold in range(FOLDS):
        strategy = methods.make("eb-gp", corpus.encoder, model=model(corpus, fold, compared))
        for task, place in zip(corpus.tasks, corpus.folds, strict=True):
            if place == fold and np.ptp(task.losses) > 0:
                found.append(regrets(task, "eb-gp", strategy.choose, 0, trials=TRIALS))
    return np.array(found)


def main() -> None:
    found: dict[str, list[np.ndarray]] = {name: [] for name in LISTS}
    for kind in KINDS:
        for learner in available(kind):
            corpus = Corpus(read_records(learner, kind), METRIC[kind])
            for name, compared in LISTS.items():
                found[name].append(curves(corpus, compared).mean(axis=0))
            print(learner, kind, *(f"{f[-1].round(3)}" for f in found.values()), flush=True)
    rows = [[name, *(f"{v:.4f}" for v in np.mean(each, axis=0))] for name, each in found.items()]
    count = len(found["and both"])
    table = {
        "about": f"Mean normalised regret of `eb-gp`, mean over {count} learners (by kind).",
        "columns": [{"name": "meta-features"}, *({"name": f"{k + 1}"} for k in range(TRIALS))],
        "rows": rows,
    }
    content = {
        "title": "Meta-features by which data sets are similar",
        "date": "2026-11-19",
        "versions": f"built-in past {VERSION}",
        "machine": "2 cores, other work on the machine",
        "command": ["python -m benchmarks.builtin.similarities"],
        "protocol": "Data sets in ten folds, near-duplicates in the same fold; the bandwidth is "
        "chosen on the other folds. A column is the number of trials.",
        "tables": {"lists": table},
    }
    OUT.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
