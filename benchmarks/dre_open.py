"""Why `dre` profits little from related past studies in a continuous space.

    python benchmarks/dre_open.py

The past are 20 studies of a family of functions (Hartmann, six inputs) that have nearly the same
optimum; the targets are 20 other functions of the family. With n random trials known (0 or 10),
measured are

- the rank correlation of the predictions with the losses, at 2,000 uniform points and at the best
  tenth of them;
- the regret of the uniform point with the best prediction, and that of the best of these points;
- the regret of one proposal, which is searched for in the whole space.

Then runs of ten trials are made.

If predictions without trials are bad, the cause is what is learnt from past studies; if those with
ten trials are worse, it is the fine-tuning; if predictions are good but proposals are not, it is
the search. `dre` has several kinds of fine-tuning, and `eb-gp` and `dre-gp` are beside it. With
`--variants` only these are measured, and `--summary` keeps the other rows of the results file. One
thread.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

os.environ.update({f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS")})

import numpy as np
from scipy.stats import spearmanr
from transfer import begin, markdown

from rankwise.bench import synthetic_families
from rankwise.bench.base import INITIAL, Benchmark
from rankwise.errors import check_name
from rankwise.history.task import Task
from rankwise.methods.build_single import ranked
from rankwise.run.model_cache import learnt_optimizer
from rankwise.surrogates.ranking.dre import DeepRankingEnsemble

FAMILY = "hartmann"
POINTS, TARGETS, KNOWN = 2000, 20, (0, 10)
RUNS, TRIALS = 10, 10
DRE: dict[str, dict[str, Any]] = {
    "Deep Set": {"deep_set": 16},
    "no Deep Set": {"deep_set": 0},
    "no Deep Set, no fine-tuning": {"deep_set": 0, "fine_tune": False},
    "no Deep Set, 2 epochs per trial": {"deep_set": 0, "pace": 2.0},
    "no Deep Set, rate 0.0003": {"deep_set": 0, "rate": 3e-4},
}
VARIANTS = ("eb-gp", "dre-gp", *DRE)
RESULTS = Path(__file__).parent / "results" / "dre-open.json"
FIGURES = (
    "rank correlation",
    "best tenth",
    "best predicted",
    "proposal",
    "best point",
)


def strategy_of(name: str, benchmark: Benchmark, out: Path) -> Any:
    """The strategy of a variant; variants that differ in the fine-tuning share what was learnt."""
    past = benchmark.past(benchmark.test[0])
    if name not in DRE:
        return learnt_optimizer(name, benchmark.encoder, past, None).strategy
    options = DRE[name]
    learnt = {"deep_set": options["deep_set"]}
    path = out / f"{benchmark.name}-{learnt['deep_set']}.safetensors"
    if not path.exists():
        ensemble = DeepRankingEnsemble(**learnt)
        ensemble.meta_fit(past.tasks, past.validation, progress=False).save(path)
    ensemble = DeepRankingEnsemble.load(path, **options)
    return ranked(benchmark.encoder, ensemble, "ei", "min")


def measured(name: str, out: Path) -> dict[str, Any]:
    """The figures of a variant by the number of known trials."""
    benchmark = synthetic_families.family(FAMILY)
    encoder, strategy = benchmark.encoder, strategy_of(name, benchmark, out)
    found: dict[str, Any] = {}
    for n in KNOWN:
        rows = []
        for k in range(TARGETS):
            problem: Any = benchmark.problem(f"test-{k}")
            rng = np.random.default_rng([k, n])
            X = encoder.sample(POINTS + n, rng)
            configurations = encoder.decode(X)
            losses = np.array([problem.evaluate(c) for c in configurations])
            history = Task.of(X[:n], losses[:n])
            surrogate = strategy.make_surrogate(0).fit(history)
            predicted = surrogate.predict(X[n:]).mean
            truth = losses[n:]
            near = np.argsort(truth)[: POINTS // 10]
            proposal = strategy.propose(history, np.empty((0, X.shape[1])), rng)
            proposed = problem.evaluate(encoder.decode(proposal[None])[0])
            regret = [truth[np.argmin(predicted)], proposed, truth.min()]
            rows.append(
                [
                    spearmanr(predicted, truth)[0],
                    spearmanr(predicted[near], truth[near])[0],
                    *((np.array(regret) - problem.best) / (problem.worst - problem.best)),
                ]
            )
        means = np.mean(rows, axis=0)
        errors = np.std(rows, axis=0, ddof=1) / TARGETS**0.5
        found[str(n)] = [
            {"value": round(float(m), 4), "se": round(float(e), 4)}
            for m, e in zip(means, errors, strict=True)
        ]
    return found


def run_regrets(name: str, out: Path) -> list[list[float]]:
    """Regrets (targets, trials) of runs in the whole space, after five random trials."""
    benchmark = synthetic_families.family(FAMILY)
    strategy = strategy_of(name, benchmark, out)
    found = []
    for k in range(RUNS):
        problem: Any = benchmark.problem(f"test-{k}")
        X = problem.initial(0)
        losses = [problem.evaluate(c) for c in benchmark.encoder.decode(X)]
        for n in range(INITIAL, INITIAL + TRIALS):
            rng = np.random.default_rng([k, n])
            history = Task.of(X, np.array(losses))
            proposal = strategy.propose(history, np.empty((0, X.shape[1])), rng)
            X = np.vstack([X, proposal])
            losses.append(problem.evaluate(benchmark.encoder.decode(proposal[None])[0]))
        found.append(np.round(problem.regrets(np.array(losses))[INITIAL:], 6).tolist())
    return found


def predictions_table(found: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The table of predictions with different numbers of known trials."""
    columns: list[dict[str, Any]] = [{"name": "known trials"}, {"name": "variant"}]
    columns += [{"name": name, "digits": 2} for name in FIGURES[:2]]
    columns += [{"name": name, "digits": 3} for name in FIGURES[2:]]
    return {
        "about": (
            "With 0 and 10 random trials: rank correlation of prediction and loss at "
            f"{POINTS:,} uniform points and at the best tenth of them; regret of the point with "
            "the best prediction, of one proposal in the whole space, and of the best of the "
            f"points. Means over {TARGETS} targets ± one standard error."
        ),
        "columns": columns,
        "rows": [
            [n, name, *cell[str(n)]]
            for n in KNOWN
            for name, cell in found.items()
            if n or len(DRE.get(name, {})) < 2  # fine-tuning needs trials
        ],
    }


def runs_table(found: dict[str, list[list[float]]]) -> dict[str, Any]:
    """The table of runs."""
    rows = []
    for name, regrets in found.items():
        means = np.mean(regrets, axis=1)
        whole = {"value": round(float(means.mean()), 4)}
        whole["se"] = round(float(means.std(ddof=1) / len(means) ** 0.5), 4)
        marks = np.mean(regrets, axis=0)[[0, TRIALS // 2 - 1, TRIALS - 1]]
        rows.append([name, whole, *(round(float(m), 4) for m in marks)])
    marks_of = [{"name": f"r@{k}", "digits": 3} for k in (1, TRIALS // 2, TRIALS)]
    return {
        "about": (
            f"Runs of {TRIALS} trials in the whole space after {INITIAL} random ones, {RUNS} "
            "targets: mean regret over the trials ± one standard error, and regret after k trials."
        ),
        "columns": [{"name": "variant"}, {"name": "mean regret", "digits": 3}, *marks_of],
        "rows": rows,
    }


def completed(table: dict[str, Any], earlier: dict[str, Any]) -> dict[str, Any]:
    """A table with the rows of an earlier one for variants that were not measured now."""
    at = [column["name"] for column in table["columns"]].index("variant")
    measured_now = {row[at] for row in table["rows"]}
    rows = table["rows"] + [row for row in earlier["rows"] if row[at] not in measured_now]
    rows.sort(key=lambda row: (row[:at], VARIANTS.index(row[at])))
    return {**table, "rows": rows}


def kept(path: Path, compute: Callable[[], Any]) -> Any:
    """The content of a file, computed if there is none."""
    if not path.exists():
        path.write_text(json.dumps(compute()))
        print(path.stem, flush=True)
    return json.loads(path.read_text())


def main() -> None:
    """Measure what is missing."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("runs/dre-open"))
    parser.add_argument("--variants", help="separated by semicolons; by default all")
    parser.add_argument("--summary", action="store_true", help="write the results file")
    options = parser.parse_args()
    out: Path = options.out
    out.mkdir(parents=True, exist_ok=True)
    begin()
    predictions, runs = {}, {}
    for name in options.variants.split(";") if options.variants else VARIANTS:
        check_name("variant", name, VARIANTS)
        stem = name.replace(",", "").replace(" ", "-")
        predictions[name] = kept(out / f"{FAMILY}-{stem}.json", partial(measured, name, out))
        runs[name] = kept(out / f"{FAMILY}-runs-{stem}.json", partial(run_regrets, name, out))
    tables = {"predictions": predictions_table(predictions), "runs": runs_table(runs)}
    for table in tables.values():
        print(markdown([c["name"] for c in table["columns"]], table["rows"]), end="\n\n")
    if options.summary:
        earlier = json.loads(RESULTS.read_text("utf-8"))["tables"]
        tables = {name: completed(table, earlier[name]) for name, table in tables.items()}
        content = {
            "title": "dre in continuous spaces with related past studies",
            "date": date.today().isoformat(),
            "machine": "2 cores, one thread, other work on the machine",
            "command": ["python benchmarks/dre_open.py --summary"],
            "protocol": (
                f"Hartmann functions of six inputs: 20 past studies of {synthetic_families.PAST} "
                "random trials, and targets with nearly the same optimum (relatedness 1). All "
                "variants of dre have 2000 steps of meta-training."
            ),
            "tables": tables,
        }
        text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
        RESULTS.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
