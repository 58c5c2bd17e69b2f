"""How does the sampler do if the new study differs from its past studies?

    python benchmarks/differences.py --data ../shared/data
    python benchmarks/differences.py --kinds "new choice" --archives clean --out runs/some

Each kind of difference is a change of the target study (`differing_studies.py`). The archive
`clean` has 30 studies with equal parameters, `messy` 60 studies as they gather in a shared
database, and `real` the other 47 tasks of the table hpobench-xgb. Finished cells are kept in a
file, so that an interrupted run continues.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import os
import warnings
from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Any

os.environ.update({f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS")})

import numpy as np
import optuna
from differing_studies import (
    EVERYTHING,
    NOISE,
    REAL,
    Objective,
    Problem,
    clean_archive,
    messy_archive,
    objective_of,
    real_family,
)

import rankwise

RESULTS = Path(__file__).resolve().parent / "results"
BUDGETS = (10, 25, 40)
TRIALS = BUDGETS[-1]
METHODS = ("with past", "alone", "TPE")
PLAIN = "models without past"
PLAIN_KINDS = ("choices instead of float", "new parameter")
"""Kinds of the real family that are run with `PLAIN`, too: why past studies do not help there."""
KINDS = {"clean": EVERYTHING, "messy": EVERYTHING, "real": REAL}
WORST = 9.99  # regret of a study in which every trial failed
TOLERANCE, SMALL = 1.1, NOISE / 2  # see PROTOCOL
Cells = dict[str, list[float]]
ABOUT = {
    "clean": "Archive of 30 studies with equal parameters.",
    "messy": "Archive of 60 studies: 35 like those of the clean archive, the others with another "
    "type, range, name or direction, with an unusual parameter, or without results.",
    "real": "Archive of the other 47 tasks of hpobench-xgb.",
}
PROTOCOL = (
    f"{TRIALS} trials per study. Values have noise of standard deviation {NOISE}, also in past "
    "studies; the regret is that of the trial with the best value, without its noise. A regret of "
    "1 is that of the median configuration on hpobench-xgb; in the synthetic family the median "
    "is .7. `alone` is `RankwiseSampler` without an archive, `TPE` Optuna's sampler. The last "
    "column is 'yes' if the regret with past studies is at most 10 % larger than `alone` at all "
    "three numbers of trials. Otherwise it has the mean difference and its standard error, and "
    f"'noise' if the difference is at most half the standard deviation of the noise ({SMALL})."
)


def run(objective: Objective, sampler: Any, seed: int) -> list[float]:
    """Regret of the best trial after each budget, and the number of failed trials."""
    regrets: list[float] = []
    noise = np.random.default_rng([5, seed]).normal(size=TRIALS)

    def noisy(trial: optuna.Trial) -> float:
        regrets.append(math.inf)
        regrets[-1] = objective(trial)
        return regrets[-1] + NOISE * float(noise[trial.number])

    study = optuna.create_study(sampler=sampler)
    study.optimize(noisy, n_trials=TRIALS, catch=(RuntimeError,))
    values = [t.value if t.value is not None else math.inf for t in study.trials]
    best = [int(np.argmin(values[:b])) for b in BUDGETS]
    return [min(regrets[k], WORST) for k in best] + [float(sum(map(math.isinf, values)))]


def cell(archive: str, name: str, method: str, seed: int, data: Path) -> list[float]:
    """What `run` returns for one study."""
    kind = KINDS[archive][name]
    if archive == "real":
        storage, objective = real_family(seed, kind, data)
    else:
        storage = (clean_archive if archive == "clean" else messy_archive)(seed)
        objective = objective_of(kind, Problem.draw(np.random.default_rng([4, seed])))
    samplers = {
        "with past": lambda: rankwise.RankwiseSampler(storage, seed=seed, **kind.sampler),
        PLAIN: lambda: rankwise.RankwiseSampler(
            storage, seed=seed, method="eb-gp", options={"caution": 1.0}
        ),
        "alone": lambda: rankwise.RankwiseSampler(seed=seed),
        "TPE": lambda: optuna.samplers.TPESampler(seed=seed),
    }
    return run(objective, samplers[method](), seed)


def key_of(archive: str, name: str, method: str, seed: int) -> str:
    """Key of a cell; without past studies the messy archive is that of the clean one."""
    where = "clean" if archive == "messy" and method != METHODS[0] else archive
    return f"{where}/{name}/{method}/{seed}"


def rows_of(cells: Mapping[str, list[float]], archive: str, seeds: int) -> Iterator[list[Any]]:
    """Rows of the table of an archive; a kind with a missing cell has none."""
    for name in KINDS[archive]:
        every = {
            m: [cells.get(key_of(archive, name, m, seed)) for seed in range(seeds)]
            for m in METHODS
        }
        if any(c is None for some in every.values() for c in some):
            continue
        past, alone, _ = found = [np.array(every[m])[:, :-1] for m in METHODS]
        failed = [float(np.array(every[m])[:, -1].mean()) for m in METHODS]
        means = [[float(f"{v:.3g}") for v in some.mean(axis=0)] for some in found]
        yield [name, *means, verdict(past, alone), failed]


def plain_rows(cells: Mapping[str, list[float]], seeds: int) -> Iterator[list[Any]]:
    """Rows of the table of the models without past studies."""
    for name in PLAIN_KINDS:
        keys = [
            [key_of("real", name, m, seed) for seed in range(seeds)]
            for m in ("with past", PLAIN, "alone")
        ]
        if all(key in cells for some in keys for key in some):
            found = [np.mean([cells[key][:-1] for key in some], axis=0) for some in keys]
            yield [name, *([float(f"{v:.3g}") for v in means] for means in found)]


def verdict(past: Any, alone: Any) -> str:
    """ "yes", or after which number of trials past studies make the regret larger, and by what."""
    p, a = past.mean(axis=0), alone.mean(axis=0)
    error = (past - alone).std(axis=0, ddof=1) / math.sqrt(len(past))
    worse = [
        f"{b}: {p[k] - a[k]:+.4f} ± {error[k]:.4f}{' (noise)' * bool(p[k] - a[k] <= SMALL)}"
        for k, b in enumerate(BUDGETS)
        if p[k] > TOLERANCE * a[k]
    ]
    return "; ".join(worse) or "yes"


def write(out: Path, cells: Cells, seeds: int) -> None:
    """Write `OUT/cells.json`, and `OUT.json` with the tables for docs/generate.py."""
    out.mkdir(parents=True, exist_ok=True)
    rounded = {key: [float(f"{v:.4g}") for v in some] for key, some in sorted(cells.items())}
    (out / "cells.json").write_text(json.dumps(rounded, indent=0) + "\n", "utf-8")
    regret = [{"name": m, "significant": 2, "join": " / "} for m in METHODS]
    columns = [{"name": "difference"}, *regret, {"name": "not worse than alone"}]
    tables: dict[str, Any] = {}
    failures: list[list[Any]] = []
    for archive, about in ABOUT.items():
        rows = list(rows_of(cells, archive, seeds))
        if not rows:
            continue
        about += f" Mean regret after {', '.join(map(str, BUDGETS[:-1]))} and {TRIALS} trials."
        tables[archive] = {"about": about, "columns": columns, "rows": [r[:-1] for r in rows]}
        failures += [[archive, r[0], *r[-1]] for r in rows if any(r[-1])]
    tables["failed"] = {
        "about": f"Mean number of failed trials, of {TRIALS}.",
        "columns": [{"name": "archive"}, {"name": "difference"}]
        + [{"name": m, "digits": 1} for m in METHODS],
        "rows": failures,
    }
    if plain := list(plain_rows(cells, seeds)):
        columns = [{"name": "difference"}] + [
            {"name": m, "significant": 2, "join": " / "} for m in ("with past", PLAIN, "alone")
        ]
        tables["models"] = {
            "about": "hpobench-xgb: mean regret after 10, 25 and 40 trials if only the models of "
            "`eb-gp` that do not use past studies have a weight (`caution=1`).",
            "columns": columns,
            "rows": plain,
        }
    content = {
        "title": "Studies that differ from their past studies",
        "date": date.today().isoformat(),
        "machine": "2 cores, other work on both",
        "versions": f"rankwise {rankwise.__version__}, Optuna {optuna.__version__}",
        "command": [f"python benchmarks/differences.py --data ../shared/data --seeds {seeds}"],
        "protocol": f"{seeds} seeds, {PROTOCOL}",
        "tables": tables,
    }
    out.with_suffix(".json").write_text(json.dumps(content, indent=1) + "\n", "utf-8")


def main() -> None:
    """Run the cells that are missing, and write the results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kinds", nargs="*", help="kinds of difference (default: all)")
    parser.add_argument("--archives", nargs="*", default=list(KINDS), choices=list(KINDS))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--data", type=Path, help="folder of tables; without it no real family")
    parser.add_argument("--out", type=Path, default=RESULTS / "differences")
    args = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    logging.getLogger("rankwise").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    kept = args.out / "cells.json"
    cells: Cells = json.loads(kept.read_text("utf-8")) if kept.exists() else {}
    for archive in args.archives:
        for name in KINDS[archive] if archive != "real" or args.data else ():
            if args.kinds and name not in args.kinds:
                continue
            plain = (PLAIN,) if archive == "real" and name in PLAIN_KINDS else ()
            for method in (*METHODS, *plain):
                for seed in range(args.seeds):
                    key = key_of(archive, name, method, seed)
                    if key not in cells:
                        where = key.partition("/")[0]
                        cells[key] = cell(where, name, method, seed, args.data)
                write(args.out, cells, args.seeds)
            print(*[r for r in rows_of(cells, archive, args.seeds) if r[0] == name], flush=True)


if __name__ == "__main__":
    main()
