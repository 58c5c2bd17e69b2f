"""The ablations of the papers on Deep Ranking Ensembles, each with the runs it needs.

    python benchmarks/ablations.py --data ../shared/data
    python benchmarks/ablations.py --summary

A group of variants answers one question (`GROUPS`); a variant differs from the reference of its
group in one thing. Runs are those of `rankwise bench`: five given initial rows, then the method
chooses among the rows of a table. Every variant is meta-trained on the train tasks and runs on the
test tasks: this is an analysis, so no setting may be chosen by it. The group `deep-set` is the
exception: it decides a default, so its target tasks are train tasks (`:fold`), as those of
`best`, an idea that is not in the papers.

A cell is a table, a variant and a seed (of the meta-training and of the runs alike), and one file
in `--out`; only missing cells are computed. Seeds are the outer loop, and groups come in the order
of `--groups`, so that a run that was stopped has every question answered with fewer seeds.
`--summary` computes nothing: it writes `benchmarks/results/ablations.json` and the figures from
the cells there are. Tables of groups that are not in `--groups` stay as they are. One thread.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

os.environ.update({f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS")})

import numpy as np
from scipy.special import softmax
from transfer import begin, seconds
from typing_extensions import Self

from rankwise.bench import benchmarks as registry
from rankwise.bench import protocol
from rankwise.bench.base import INITIAL, Benchmark
from rankwise.errors import check_name
from rankwise.history.task import Task
from rankwise.methods.build_single import ranked
from rankwise.surrogates.base import Posterior
from rankwise.surrogates.ranking.dre import DeepRankingEnsemble
from rankwise.types import Array

TABLES = ("tst-svm-hpob", "hpobench-xgb", "textclf")
FOLDS = tuple(f"{table}:fold" for table in TABLES)
TRIALS, SEEDS, STEPS, LONGER = 25, 3, 400, 1000


class Continued(DeepRankingEnsemble):
    """Fine-tunes from the weights of the previous proposal, not from the meta-trained ones."""

    def with_seed(self, seed: int) -> Self:
        # Trials and weights of the last fit, shared by all copies.
        vars(self).setdefault("_last", {})
        return super().with_seed(seed)

    def fit(self, task: Task) -> Self:
        if self._last.get("trials") == task.X[:-1].tobytes():
            self._start = self._last["weights"]
        super().fit(task)
        self._last |= {"trials": task.X.tobytes(), "weights": self._weights}
        return self


class TopProbability(DeepRankingEnsemble):
    """Predicts the probability that a configuration is the best (Plackett-Luce model).

    It is the softmax of the scores, averaged over the scorers; the loss fits the same model. With
    the acquisition function "mean" the most probable configuration is chosen.
    """

    def predict(self, X: Array, *, joint: bool = False) -> Posterior:
        scores = self.scores(X)
        if self.limit is not None:
            scores = self.limit * np.tanh(scores / self.limit)
        probability = softmax(scores, axis=1).mean(axis=0)
        return Posterior(-probability, np.zeros(len(X)))


@dataclass(frozen=True)
class Variant:
    """One way to build `dre`.

    Attributes:
        learnt: options that change what meta-training learns.
        used: other options of the ensemble.
        training: options of meta-training, besides the number of steps.
        past: whether there are source tasks.
        acquisition: name of the acquisition function; "random" for random search.
        kind: class of the ensemble.
    """

    learnt: Mapping[str, Any] = field(default_factory=dict)
    used: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)
    past: bool = True
    acquisition: str = "ei"
    kind: type[DeepRankingEnsemble] = DeepRankingEnsemble


OFF, ON = {"deep_set": 0}, {"deep_set": 16}
LOSSES: dict[str, dict[str, Any]] = {
    "weighted list-wise": {},
    "list-wise": {"weighting": "none"},
    "pair-wise": {"loss": "ranknet"},
    "point-wise": {"loss": "pointwise"},
    "regression": {"loss": "mse"},
    "ListNet": {"loss": "listnet"},
    "NeuralSort": {"loss": "neuralsort"},
}
WEIGHTINGS = ("inverse-linear", "attention", "position-aware")
VARIANTS: dict[str, Variant] = {
    "F,M,T": Variant(ON),
    "F,M": Variant(ON, {"fine_tune": False}),
    "F,T": Variant(ON, past=False),
    "mean rank": Variant(ON, acquisition="mean"),
    "LCB": Variant(ON, acquisition="lcb"),
    "random": Variant(past=False, acquisition="random"),
    **{name: Variant({**OFF, **loss}) for name, loss in LOSSES.items()},
    **{f"{name}, no past": Variant({**OFF, **loss}, past=False) for name, loss in LOSSES.items()},
    **{name: Variant({**OFF, "weighting": name}) for name in WEIGHTINGS},
    **{f"lists of {n}": Variant(OFF, training={"list_size": n}) for n in (10, 50, 200)},
    **{
        f"{width} x {layers}": Variant({**OFF, "width": width, "layers": layers})
        for width, layers in ((16, 2), (32, 2), (32, 3), (64, 2), (64, 4))
    },
    **{f"{n} scorers": Variant({**OFF, "members": n}) for n in (2, 5, 20)},
    "continue": Variant(OFF, kind=Continued),
    "Deep Set": Variant(ON),
    "no Deep Set": Variant(OFF),
    "2 epochs per trial": Variant(OFF, {"pace": 2.0}),
    "rate 0.0003": Variant(OFF, {"rate": 3e-4}),
    "probability of the best": Variant(OFF, acquisition="mean", kind=TopProbability),
}


@dataclass(frozen=True)
class Group:
    """The variants that answer one question.

    Attributes:
        question: what is asked.
        variants: the name of each variant, by the name it has in this group; the first one is the
            reference.
        tables: benchmarks.
        steps: steps of meta-training at most.
    """

    question: str
    variants: Mapping[str, str]
    tables: tuple[str, ...] = TABLES
    steps: int = STEPS


BASE = "weighted list-wise"


def _named(*names: str, base: str = "") -> dict[str, str]:
    return {**({base: BASE} if base else {}), **{name: name for name in names}}


GROUPS: dict[str, Group] = {
    "parts": Group(
        "Deep Set (F), meta-learning (M) and fine-tuning (T)",
        {**_named("F,M,T", "F,M", "F,T"), "M,T": BASE, "T": f"{BASE}, no past"},
    ),
    "acquisition": Group(
        "Acquisition function", {"EI": "F,M,T", **_named("mean rank", "LCB", "random")}
    ),
    "loss": Group("Loss, with past studies", _named(*LOSSES)),
    "deep-set": Group("Deep Set or none", _named("Deep Set", "no Deep Set"), FOLDS, LONGER),
    "loss-alone": Group(
        "Loss, without past studies", {name: f"{name}, no past" for name in LOSSES}
    ),
    "list-size": Group(
        "Size of the lists",
        _named("lists of 10", "lists of 50", "lists of 200", base="lists of 100"),
    ),
    "scorer-size": Group(
        "Size of the scorers (width x layers)",
        _named("16 x 2", "32 x 2", "32 x 3", "64 x 2", "64 x 4", base="32 x 4"),
    ),
    "scorers": Group(
        "Number of scorers", _named("2 scorers", "5 scorers", "20 scorers", base="10 scorers")
    ),
    "weighting": Group(
        "Weights of the positions",
        {"inverse-log": BASE, "none": "list-wise", **_named(*WEIGHTINGS)},
    ),
    "best": Group(
        "Expected improvement of ranks, or probability of the best",
        {"EI": "no Deep Set", **_named("probability of the best")},
        FOLDS,
        LONGER,
    ),
    "fine-tuning": Group(
        "Less fine-tuning",
        {"8 epochs": "no Deep Set", **_named("2 epochs per trial", "rate 0.0003")},
        FOLDS,
        LONGER,
    ),
    "restart": Group("Restart or continue", _named("continue", base="restart")),
}


def path_of(out: Path, table: str, variant: str, seed: int) -> Path:
    """The file of a cell."""
    name = f"{table}__{variant}__{seed}".replace(":", "-").replace(",", "-").replace(" ", "-")
    return out / f"{name}.json"


def computed(
    group: Group, table: str, variant: Variant, seed: int, data: Path, models: Path
) -> Any:
    """The regrets (trials + 1) of each task, and CPU seconds of learning and of the runs."""
    benchmark = registry.load(table, data)
    strategy, learning = _strategy(group, benchmark, variant, seed, models)
    optimizer: Any = SimpleNamespace(strategy=strategy)
    regrets: dict[str, list[float]] = {}

    def run() -> None:
        for name in benchmark.test:
            problem = benchmark.problem(name)
            trace = protocol.run(problem, optimizer, seed=seed, initial=INITIAL, trials=TRIALS)
            assert not trace.fallbacks, f"the surrogate failed on {name}"
            regrets[name] = [round(r, 8) for r in trace.regrets]

    return {"runs": round(seconds(run), 2), "learning": round(learning, 2), "regrets": regrets}


def _strategy(
    group: Group, benchmark: Benchmark, variant: Variant, seed: int, models: Path
) -> tuple[Any, float]:
    """The strategy of a variant, and the seconds of its meta-training if it is not kept yet."""
    if variant.acquisition == "random":
        choose = lambda history, pool, rng: int(rng.integers(len(pool)))  # noqa: E731
        return SimpleNamespace(design=None, choose=choose), 0.0
    options: dict[str, Any] = {**variant.learnt, **variant.used, "seed": seed}
    if not variant.past:
        return ranked(benchmark.encoder, variant.kind(**options), variant.acquisition, "min"), 0.0
    parts = {**variant.learnt, **variant.training, "steps": group.steps, "seed": seed}
    words = "__".join(f"{name}={value}" for name, value in sorted(parts.items()))
    path = models / f"{benchmark.name.replace(':', '-')}__{words}.safetensors"
    spent = 0.0
    if not path.exists():
        training = {**variant.training, "steps": group.steps}
        ensemble = DeepRankingEnsemble(**variant.learnt, training=training, seed=seed)
        past = benchmark.past(benchmark.test[0])
        spent = seconds(lambda: ensemble.meta_fit(past.tasks, past.validation, progress=False))
        ensemble.save(path)
    ensemble = variant.kind.load(path, **options)
    return ranked(benchmark.encoder, ensemble, variant.acquisition, "min"), spent


def run_cells(names: list[str], seeds: range, data: Path, out: Path) -> None:
    """Compute the missing cells."""
    models = out / "models"
    models.mkdir(parents=True, exist_ok=True)
    for seed, name in product(seeds, names):
        group = GROUPS[name]
        for key, table in product(group.variants.values(), group.tables):
            path = path_of(out, table, key, seed)
            if path.exists():
                continue
            found = computed(group, table, VARIANTS[key], seed, data, models)
            unfinished = path.with_suffix(".part")
            unfinished.write_text(json.dumps(found))
            unfinished.replace(path)
            mean = np.mean([curve[1:] for curve in found["regrets"].values()])
            print(f"{path.stem}: {mean:.4f}, {found['learning']} + {found['runs']} s", flush=True)


def main() -> None:
    """Compute what is missing, or write the results."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    default = Path(os.environ.get(registry.DATA_VARIABLE) or "../shared/data")
    parser.add_argument("--data", type=Path, default=default, help="folder of the tables")
    parser.add_argument("--out", type=Path, default=Path("runs/ablations"), help="folder of cells")
    parser.add_argument("--groups", default=",".join(GROUPS), help="separated by commas")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="how many")
    parser.add_argument("--summary", action="store_true", help="write results and figures")
    options = parser.parse_args()
    names = options.groups.split(",")
    for name in names:
        check_name("group", name, GROUPS)
    if options.summary:
        from ablations_report import write

        write(options.out, names)
        return
    begin()
    run_cells(names, range(options.seeds), options.data.resolve(), options.out)


if __name__ == "__main__":
    main()
