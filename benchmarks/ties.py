"""Whether methods with networks fine-tune while all losses of the target task are equal.

    python benchmarks/ties.py --data ../shared/data

Target tasks are the train tasks of a table (each third of them in turn, the other two thirds are
the past) and the validation tasks (all train tasks are the past). Runs are those pairs of task and
seed (0 to 9) in which all five initial rows have the same loss: in all other runs the rule changes
nothing. Rules are

- `skip`: no fine-tuning while all losses are equal;
- `always`: fine-tuning from two trials on;
- `own`: fine-tuning once a proposal of the method has joined the tie (six trials or more).

For `rgpe` "fine-tuning" means that the target's process has the same weight as each source
process. Results are kept in `--out`, one file per target set and method. Test tasks are never
used.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

os.environ.update({f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS")})

import numpy as np
from transfer import begin, markdown

from rankwise.bench import benchmarks as registry
from rankwise.bench import protocol
from rankwise.bench.base import INITIAL, Benchmark
from rankwise.errors import check_name
from rankwise.methods.build_single import assembled, ranked
from rankwise.surrogates.ranking.dre import DeepRankingEnsemble
from rankwise.surrogates.shared_features import fsbo
from rankwise.surrogates.shared_features.deep_kernel import DeepProcess, fine_tune
from rankwise.surrogates.shared_features.minibatches import Rows
from rankwise.surrogates.source_ensembles.rgpe import RankingWeightedGPs

RULES = {"skip": 0, "always": 2, "own": INITIAL + 1}
TABLES, SEEDS, TRIALS, MARKS = ("tst-svm-hpob", "oboe"), range(10), 15, (5, 10, 15)


class TunedDRE(DeepRankingEnsemble):
    """DRE that fine-tunes on ties of at least `least` trials."""

    least = 0

    def _has_order(self, task: Any) -> bool:
        return super()._has_order(task) or 0 < self.least <= len(task)


class TunedFSBO(fsbo.DeepKernelGP):
    """FSBO that fine-tunes on ties of at least `least` trials."""

    least = 0

    def _observe(self, task: Any, weights: Any) -> None:
        if len(np.unique(task.losses)) > 1 or not 0 < self.least <= len(task):
            return super()._observe(task, weights)
        self._transform = fsbo.unit_range(task.losses)
        rows = Rows.of(task.X, self._transform(task.losses), task.losses)
        weights = fine_tune(self._kernel, weights, rows, epochs=self.epochs, rate=self.rate)
        self._process = DeepProcess.given(self._kernel, weights, rows)


class OwnRGPE(RankingWeightedGPs):
    """RGPE in which the target's process counts from a tie of `least` trials on."""

    least = 0

    def weigh(self, past: Any, X: Any, y: Any, context: Any, rng: Any) -> Any:
        weights, own = super().weigh(past, X, y, context, rng)
        if len(np.unique(y)) > 1 or not 0 < self.least <= len(y) or self._target.model is None:
            return weights, own
        share = 1.0 / (len(past) + 1)
        return np.full(len(past), share), share


def targets(table: str, data: Path) -> dict[str, Benchmark]:
    """Target sets with their pasts, by name."""
    whole = registry.load(table, data)
    found = {f"{table}:validation": registry.load(f"{table}:validation", data)}
    for k in range(3):
        held = whole.train[k::3]
        rest = tuple(name for name in whole.train if name not in held)
        found[f"{table}:fold-{k}"] = replace(whole, train=rest, test=held)
    return found


def tied(benchmark: Benchmark) -> list[tuple[str, int]]:
    """Pairs of task and seed whose initial rows all have the same loss."""
    found = []
    for name in benchmark.test:
        problem = benchmark.problem(name)
        for seed in SEEDS:
            losses = problem.losses[problem.initial(seed)]
            if len(np.unique(losses)) == 1 and losses[0] > problem.best:
                found.append((name, seed))
    return found


def strategies(method: str, benchmark: Benchmark) -> dict[str, Any]:
    """A strategy for each rule, which share what was learnt."""
    past = benchmark.past(benchmark.test[0])
    tasks, validation = past.tasks, past.validation
    if method.startswith("dre"):
        options: dict[str, Any] = {"deep_set": 0} if method == "dre-0" else {}
        learnt = TunedDRE(**options, training={"steps": 1000})
        learnt.meta_fit(tasks, validation, progress=False)
        return {
            rule: ranked(benchmark.encoder, _with(learnt, least=least), "ei", "min")
            for rule, least in RULES.items()
        }
    kind: Callable[..., Any] = {"fsbo": TunedFSBO, "rgpe": OwnRGPE}[method]
    surrogate = kind().meta_fit(tasks, validation, progress=False)
    return {
        rule: assembled(
            benchmark.encoder,
            _with(surrogate, least=least).with_seed,
            "ei",
            "min",
            informed=True,
        )
        for rule, least in RULES.items()
    }


def _with(surrogate: Any, **attributes: Any) -> Any:
    twin = surrogate.with_seed(0)
    vars(twin).update(attributes)
    return twin


def computed(method: str, benchmark: Benchmark) -> dict[str, Any]:
    """Regrets (trials + 1) of each run, by rule."""
    pairs = tied(benchmark)
    if not pairs:
        return {}
    found: dict[str, Any] = {}
    for rule, strategy in strategies(method, benchmark).items():
        optimizer: Any = SimpleNamespace(strategy=strategy)
        found[rule] = {}
        for name, seed in pairs:
            problem = benchmark.problem(name)
            trace = protocol.run(problem, optimizer, seed=seed, initial=INITIAL, trials=TRIALS)
            assert not trace.fallbacks
            found[rule][f"{name} {seed}"] = [round(r, 6) for r in trace.regrets]
    return found


def rows_of(found: dict[str, dict[str, Any]]) -> list[list[Any]]:
    """Mean regrets by rule; every task counts once. Runs better and worse than `skip`."""
    rows: list[list[Any]] = []
    for rule in RULES:
        tasks: dict[str, list[list[float]]] = {}
        gaps = []
        for name, part in found.items():
            for key, regrets in part.get(rule, {}).items():
                tasks.setdefault(f"{name} {key.rpartition(' ')[0]}", []).append(regrets)
                gaps.append(np.mean(regrets[1:]) - np.mean(part["skip"][key][1:]))
        curves = np.array([np.mean(runs, axis=0) for runs in tasks.values()])
        cells = [round(float(curves[:, k].mean()), 4) for k in MARKS]
        better, worse = (np.array(gaps) < 0).sum(), (np.array(gaps) > 0).sum()
        against = None if rule == "skip" else f"{better}/{worse}"
        rows.append([rule, *cells, round(float(curves[:, 1:].mean()), 4), against])
    return rows


def results(found: dict[str, dict[str, dict[str, Any]]], command: str) -> dict[str, Any]:
    """The results file."""
    pairs = {(n, k) for part in found.values() for n, p in part.items() for k in p.get("skip", {})}
    tasks = {(name, key.rpartition(" ")[0]) for name, key in pairs}
    columns: list[dict[str, Any]] = [{"name": "method", "code": True}, {"name": "rule"}]
    columns += [{"name": f"r@{k}", "digits": 4} for k in MARKS]
    columns += [{"name": "mean", "digits": 4}, {"name": "runs better/worse than skip"}]
    rows = [[m, *row] for m, part in found.items() for row in rows_of(part)]
    return {
        "title": "Fine-tuning while all losses are equal",
        "date": date.today().isoformat(),
        "machine": "2 cores, one thread, other work on the machine",
        "command": [command],
        "protocol": (
            "Runs on tst-svm in which all five initial rows have the same loss: train tasks, each "
            "third in turn with the other two thirds as past, and validation tasks; seeds 0 to 9, "
            f"{TRIALS} trials; {len(pairs)} runs of {len(tasks)} tasks. dre with 1000 steps of "
            "meta-training."
        ),
        "tables": {
            "regret": {
                "about": "Mean regret after k trials, and over all trials.",
                "columns": columns,
                "rows": rows,
            }
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    default = Path(os.environ.get(registry.DATA_VARIABLE) or "../shared/data")
    parser.add_argument("--data", type=Path, default=default)
    parser.add_argument("--out", type=Path, default=Path("runs/ties"))
    parser.add_argument("--methods", default="dre,dre-0,fsbo,rgpe")
    parser.add_argument("--tables", default=",".join(TABLES))
    parser.add_argument("--summary", action="store_true", help="write the results file")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    begin()
    every: dict[str, dict[str, dict[str, Any]]] = {}
    for method in options.methods.split(","):
        check_name("method", method, ("dre", "dre-0", "fsbo", "rgpe"))
        found = {}
        for table in options.tables.split(","):
            for name, benchmark in targets(table, options.data.resolve()).items():
                path = options.out / f"{name.replace(':', '-')}-{method}.json"
                if not path.exists():
                    path.write_text(json.dumps(computed(method, benchmark)))
                    print(path.stem, flush=True)
                found[name] = json.loads(path.read_text())
        every[method] = found
        header = ["rule", *(f"r@{k}" for k in MARKS), "mean", "better/worse"]
        print(f"{method}\n\n{markdown(header, rows_of(found))}\n", flush=True)
    if options.summary:
        words = f"--tables {options.tables} --methods {options.methods} --summary"
        content = results(every, f"python benchmarks/ties.py {words}")
        text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
        (Path(__file__).parent / "results" / "ties.json").write_text(text, "utf-8")


if __name__ == "__main__":
    main()
