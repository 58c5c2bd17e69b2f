"""The scorers of `dre` as the prior of a Gaussian process (`dre-gp`), beside fine-tuned ones.

    python benchmarks/dre_gp.py --out runs/dre-gp

Reads the cells that `rankwise bench run` wrote (`COMMANDS`) and writes
`benchmarks/results/dre-gp.json`; nothing is run here. `dre-gp` was chosen on the tables made of
train tasks (`:fold`). The test tasks were used once, to report.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from rankwise.bench.cells import stored_cells
from rankwise.bench.results import Run
from rankwise.bench.run_arrays import Panel, make_panel
from rankwise.bench.significance import duel

RESULTS = Path(__file__).parent / "results"
TABLES = ("tst-svm-hpob", "hpobench-xgb", "oboe", "textclf")
METHODS = ("dre-gp", "dre", "eb-gp")
DEVELOPMENT, TEST = 25, 30  # trials
EARLIER = ("dre", "fsbo", "rgpe", "gp")  # test tasks: rows of `transfer-methods.json`
COMMANDS = [
    "export RANKWISE_DATA=../shared/data",
    "rankwise bench run --on tst-svm-hpob:fold,hpobench-xgb:fold,textclf:fold "
    "--methods dre-gp,eb-gp,dre --seeds 3 --trials 25 --out runs/dre-gp",
    "rankwise bench run --on oboe:fold --methods dre-gp,eb-gp,dre --seeds 1 --trials 25 "
    "--out runs/dre-gp",
    "rankwise bench run --on tst-svm-hpob,hpobench-xgb,oboe,textclf --methods dre-gp,eb-gp "
    "--seeds 5 --trials 30 --out runs/dre-gp",
    "python benchmarks/dre_gp.py",
]


def panels_of(runs: Sequence[Run], kind: str, trials: int) -> list[Panel]:
    """One panel for each table of a kind ("" or ":fold") that has runs."""
    found = []
    for table in TABLES:
        some = [r for r in runs if r.benchmark == f"{table}{kind}" and r.trials == trials]
        if some:
            found.append(make_panel(some))
    return found


def table_of(panels: Sequence[Panel], about: str) -> dict[str, Any]:
    """Mean regret of each method by table, and the paired difference to the first one."""
    names = [name for name in METHODS if name in panels[0].methods]
    rows = []
    for name in names:
        means = [_regrets(panel, name).mean() for panel in panels]
        row: list[Any] = [name, *(round(float(m), 4) for m in means)]
        seconds = np.concatenate([panel.seconds[panel.methods.index(name)] for panel in panels])
        row += [round(float(np.mean(means)), 4), round(1000 * float(np.median(seconds)), 1)]
        if name == names[0]:
            rows.append([*row, None, None, None])
            continue
        gaps = [_task_gaps(panel, name, names[0]) for panel in panels]
        se = np.sqrt(sum(g.var(ddof=1) / len(g) for g in gaps)) / len(gaps)
        value = np.mean([g.mean() for g in gaps])
        mine = duel(panels, name, names[0])
        difference = {"value": round(float(value), 4), "se": round(float(se), 4)}
        p = "< 0.001" if mine.p < 0.001 else round(mine.p, 3)
        rows.append([*row, difference, f"{mine.wins}/{mine.losses}", p])
    columns: list[dict[str, Any]] = [{"name": "method", "code": True}]
    columns += [
        {"name": panel.benchmark.replace("-hpob", ""), "digits": 4, "best": "min"}
        for panel in panels
    ]
    columns += [{"name": "all", "digits": 4, "best": "min"}, {"name": "ms"}]
    columns += [{"name": f"less {names[0]}", "digits": 4}]
    columns += [{"name": "runs better/worse"}, {"name": "p", "digits": 3}]
    return {"about": about, "columns": columns, "rows": rows}


def with_earlier(table: dict[str, Any]) -> dict[str, Any]:
    """The table of the test tasks with the rows of methods that were measured before."""
    content = json.loads((RESULTS / "transfer-methods.json").read_text("utf-8"))
    earlier = content["tables"]["regret-5"]
    names = [column["name"] for column in earlier["columns"]]
    for row in earlier["rows"]:
        if row[0] in EARLIER:
            known = dict(zip(names, row, strict=True))
            means = [known[name] for name in TABLES]
            table["rows"].append([row[0], *means, round(float(np.mean(means)), 4), *[None] * 4])
    return table


def _regrets(panel: Panel, name: str) -> np.ndarray:
    """Mean regret over the trials of every run of a method."""
    k = panel.methods.index(name)
    return np.asarray(panel.regrets[k, :, 1:].mean(axis=1))


def _task_gaps(panel: Panel, name: str, reference: str) -> np.ndarray:
    """Difference of mean regrets (tasks,), averaged over seeds."""
    gaps = _regrets(panel, name) - _regrets(panel, reference)
    tasks = panel.task_numbers
    return np.array([gaps[tasks == task].mean() for task in np.unique(tasks)])


def main() -> None:
    """Write the results file."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("runs/dre-gp"), help="folder of cells")
    out: Path = parser.parse_args().out
    runs = [cell.read(out) for cell in stored_cells(out) if cell.is_done(out)]
    tables = {
        "fold": table_of(
            panels_of(runs, ":fold", DEVELOPMENT),
            "Tables made of train tasks alone: mean regret over trials 1 to 25. Seeds 0 to 2, "
            "oboe seed 0.",
        ),
        "test": with_earlier(
            table_of(
                panels_of(runs, "", TEST),
                "Test tasks: mean regret over trials 1 to 30, seeds 0 to 4. Rows without a "
                "difference are those of the comparison of all transfer methods. tst-svm is "
                "its copy in HPO-B's format, with other test tasks and initial points than in the "
                "results of the transfer GP. Without late proposals by mbo.",
            )
        ),
    }
    content = {
        "title": "The scorers of dre as the prior of a Gaussian process",
        "date": date.today().isoformat(),
        "machine": "2 cores, one thread, other work on the machine",
        "command": COMMANDS,
        "protocol": (
            "Five given initial rows, then trials among the rows of a table. Every seed has its "
            "own meta-training. all: tables weigh the same; ms: median of a proposal. less "
            "dre-gp: paired, ± one standard error over tasks; runs (pairs of task and seed) with "
            "a smaller/larger mean regret than dre-gp, and p of Wilcoxon's signed-rank test over "
            "tasks."
        ),
        "tables": tables,
    }
    text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    (RESULTS / "dre-gp.json").write_text(text, "utf-8")


if __name__ == "__main__":
    main()
