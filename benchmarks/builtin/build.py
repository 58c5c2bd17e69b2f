"""Build the data files of `rankwise.builtin` from the collected records.

    python -m benchmarks.builtin.build

It reads `benchmarks/results/builtin`, writes `src/rankwise/builtin/data`. A data set is included
if the default and all shared configurations of a learner were evaluated on it, a learner if it has
at least `FEWEST` data sets of a kind.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from ConfigSpace.hyperparameters import NumericalHyperparameter

from benchmarks.builtin.collect import ROOT, read
from benchmarks.builtin.library import KINDS, LEARNERS, OWN, Learner
from benchmarks.builtin.scores import METRICS
from rankwise.builtin.learnt import learnt_arrays
from rankwise.builtin.records import DATASETS, FOLDER, FORMAT, VERSION, _read, dataset_facts
from rankwise.builtin.tasks import Placed, source_tasks
from rankwise.history.task import STATUSES
from rankwise.surrogates.empirical_bayes.past_functions import SourcePast
from rankwise.surrogates.empirical_bayes.surrogate import EmpiricalBayes

FEWEST = 30
_LOSSES = ("log_loss", "mae", "rmse")
_FACTS = ("n", "n_used", "p", "classes", "source", "licence", "context")


def build(results: Path, out: Path, learners: list[str]) -> None:
    out.mkdir(parents=True, exist_ok=True)
    write_datasets(results, out)
    dataset_facts.cache_clear()
    for learner in learners:
        for kind in LEARNERS[learner]:
            tables = complete_tables(results, learner, kind)
            path = out / f"{learner}.{kind}.npz"
            if len(tables) < FEWEST:
                print(f"{learner} {kind}: left out, it has {len(tables)} complete data sets")
                path.unlink(missing_ok=True)
                continue
            write(path, *arrays_of(learner, kind, tables))
            learn(path, learner, kind, out)
            size = path.stat().st_size / 1024
            print(f"{learner} {kind}: {len(tables)} data sets, {size:.0f} KB", flush=True)
    print(f"{sum(f.stat().st_size for f in out.iterdir()) / 2**20:.2f} MB in {out}")


def complete_tables(results: Path, learner: str, kind: str) -> dict[str, list[dict[str, Any]]]:
    """The evaluations of each data set that has all of the shared design, by its name.

    They are counted, because the design itself may differ between versions of the package.
    """
    wanted = len(Learner.of(learner, kind).designs("", own=0))
    tables = {}
    for path in sorted((results / learner / kind).glob("*.json")):
        table = read(path)
        if sum(row["design"] != OWN for row in table) >= wanted:
            tables[path.stem] = table
    return tables


def write_datasets(results: Path, out: Path) -> None:
    """Write `datasets.json` and the NOTICE."""
    groups = json.loads((results / "groups.json").read_text())
    facts: dict[str, dict[str, Any]] = {}
    for kind in KINDS:
        near = {name: group[0] for group in groups[kind] for name in group}
        for path in sorted((results / "contexts" / kind).glob("*.json")):
            known = json.loads(path.read_text())
            row = {name: known[name] for name in _FACTS}
            facts.setdefault(kind, {})[path.stem] = {
                **row,
                "group": near.get(path.stem, path.stem),
            }
    text = json.dumps(facts, ensure_ascii=False, indent=None, separators=(",", ":"))
    (out / DATASETS).write_text(text.replace('},"', '},\n"') + "\n", "utf-8")
    lines = [
        f"Data sets of the built-in past of Rankwise ({VERSION})",
        "",
        "The records in this folder are our own evaluations of estimators on the data sets",
        "below. They hold scores, seconds and meta-features, and no rows of any data set. They",
        "are licensed like Rankwise (Apache-2.0). Data set: rows x columns; source; licence:",
    ]
    for kind, rows in facts.items():
        lines += ["", kind, ""]
        lines += [
            f"- {n}: {f['n']} x {f['p']}; {f['source']}; {f['licence']}" for n, f in rows.items()
        ]
    (out / "NOTICE").write_text("\n".join(lines) + "\n", "utf-8")


def arrays_of(
    learner: str, kind: str, tables: dict[str, list[dict[str, Any]]]
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The header and the arrays of a file, without what is learnt."""
    encoder = Learner.of(learner, kind).encoder
    hyperparameters = [_hyperparameter(hp) for hp in encoder.space.values()]
    everything = [row for table in tables.values() for row in table]
    values = np.full((len(hyperparameters), len(everything)), np.nan, dtype=np.float32)
    for j, hp in enumerate(hyperparameters):
        for i, row in enumerate(everything):
            if hp["name"] in row["configuration"]:
                value = row["configuration"][hp["name"]]
                values[j, i] = hp["choices"].index(value) if "choices" in hp else value
    scores = [[row.get(m) for row in everything] for m in METRICS[kind]]
    numbers = np.array([[np.nan if v is None else v for v in row] for row in scores])
    kept = ~np.isnan(numbers).all(axis=1)
    metrics = [m for m, keep in zip(METRICS[kind], kept, strict=True) if keep]
    header = {
        "format": FORMAT,
        "version": VERSION,
        "learner": learner,
        "kind": kind,
        "hyperparameters": hyperparameters,
        "metrics": {m: "minimize" if m in _LOSSES else "maximize" for m in metrics},
        "datasets": list(tables),
        "rows": 700,
        "folds": 3,
        "exam": {},
        "similarity": {},
    }
    seconds = [np.nan if row["seconds"] is None else row["seconds"] for row in everything]
    return header, {
        "sizes": np.array([len(table) for table in tables.values()], dtype=np.int32),
        "values": values,
        "scores": _rounded(numbers[kept], 5),
        "status": np.array([STATUSES.index(r["status"]) for r in everything], dtype=np.uint8),
        "seconds": _rounded(np.array(seconds), 2),
    }


def learn(path: Path, learner: str, kind: str, out: Path) -> None:
    """Add what `eb-gp` learns from the records, for each metric."""
    _read.cache_clear()
    records = _read(learner, kind, out)
    encoder = Learner.of(learner, kind).encoder
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files if name != "header"}
        header = json.loads(file["header"].tobytes())
    for metric in records.scores:
        tasks = source_tasks([Placed.of(records, encoder)], metric)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            surrogate = EmpiricalBayes().meta_fit(tasks, progress=False)
        if not surrogate.meta_learned:
            print(f"{learner} {kind} {metric}: the data sets do not predict each other")
            continue
        header["exam"][metric] = round(surrogate.exam, 4)
        assert isinstance(surrogate.past, SourcePast)
        if (similar := surrogate.past.similarity) is not None:
            header["similarity"][metric] = [list(similar.names), similar.bandwidth]
        for name, array in learnt_arrays(surrogate, tasks).items():
            small = array.astype(np.float32) if name in ("lengthscales", "check") else array
            arrays[f"learnt.{metric}.{name}"] = small
    write(path, header, arrays)


def write(path: Path, header: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    np.savez_compressed(path, header=np.frombuffer(text, dtype=np.uint8), **arrays)


def _hyperparameter(hp: Any) -> dict[str, Any]:
    default = _plain(hp.default_value)
    if isinstance(hp, NumericalHyperparameter):
        integer = isinstance(default, int)
        low, high = _plain(hp.lower), _plain(hp.upper)
        facts = {"low": low, "high": high, "log": bool(hp.log), "integer": integer}
        return {"name": hp.name, "default": default, **facts}
    choices = getattr(hp, "choices", None) or getattr(hp, "sequence", None) or (hp.value,)
    return {"name": hp.name, "default": default, "choices": [_plain(c) for c in choices]}


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _rounded(numbers: np.ndarray, digits: int) -> np.ndarray:
    """Numbers with a few significant digits, which compress well."""
    with np.errstate(divide="ignore", invalid="ignore"):
        power = 10.0 ** (digits - 1 - np.floor(np.log10(np.abs(numbers))))
        rounded = np.where(numbers == 0, 0.0, np.round(numbers * power) / power)
    return rounded.astype(np.float32)


def parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument(
        "--results", type=Path, default=ROOT / "benchmarks" / "results" / "builtin"
    )
    parser.add_argument("--out", type=Path, default=FOLDER)
    parser.add_argument("--learners", nargs="*", default=list(LEARNERS), choices=list(LEARNERS))
    return parser.parse_args(words)


if __name__ == "__main__":
    arguments = parse(sys.argv[1:])
    build(arguments.results, arguments.out, arguments.learners)
