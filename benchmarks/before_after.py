"""One table of what became faster, from the measurements in `benchmarks/results`.

    python benchmarks/before_after.py

Reads `archive.json` (`python benchmarks/archive.py`) and `scale.json` (`python
benchmarks/scale.py`), and writes `before-after.json`. Nothing is measured here.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
STEPS = {"first proposal": "first", "kept model": "kept"}
ARCHIVES: list[tuple[str, int, str, Any]] = [
    ("SQLite", 200, "first proposal", 5),
    ("SQLite", 200, "kept model", 1.5),
    ("SQLite", 1000, "first proposal", 25),
    ("SQLite", 1000, "kept model", 2),
    ("SQLite", 10000, "first proposal", 300),
    ("SQLite", 10000, "kept model", 10),
    ("PostgreSQL", 200, "first proposal", 5),
    ("PostgreSQL", 200, "kept model", 1.5),
    ("PostgreSQL", 1000, "first proposal", 25),
    ("PostgreSQL", 1000, "kept model", 2),
    ("SQLite", 20, "first proposal", "half"),
]
SCALES: list[tuple[str, str, Any]] = [
    ("RankwiseSearchCV, 200 trials", "CPU s", "linear in trials"),
    ("SQL statements per trial (SQLite and PostgreSQL)", "statements", 85),
    ("auto: one choice from 30,000 rows, 5 trials", "CPU s", None),
    ("rankwise archive import, 60 studies of 100 trials into PostgreSQL", "CPU s", None),
    ("from rankwise import RankwiseSampler", "CPU s", "half"),
]


def read(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text("utf-8"))
    return content


def cells(table: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of a table by the names of its columns."""
    names = [column["name"] for column in table["columns"]]
    return [dict(zip(names, row, strict=True)) for row in table["rows"]]


def main() -> None:
    archive, scale = read("archive"), read("scale")
    known = {(row["database"], row["studies"]): row for row in cells(archive["tables"]["seconds"])}
    rows: list[list[Any]] = []
    for database, studies, step, aim in ARCHIVES:
        row = known[database, studies]
        what = f"{database}, {studies:,} studies of 100 trials, {step}"
        name = STEPS[step]
        rows.append([what, "CPU s", row[f"{name}, before"], row[name], aim])
    most = known["SQLite", 10000]
    rows.append(["SQLite, 10,000 studies, memory", "MB", most["MB, before"], most["MB"], 2000])
    lines = {row["what"]: row for row in cells(scale["tables"]["before-after"])}
    rows += [[what, unit, lines[what]["before"], lines[what]["after"], aim]
             for what, unit, aim in SCALES]  # fmt: skip
    content = {
        "title": "Before and after",
        "date": archive["date"],
        "machine": archive["machine"],
        "versions": scale["versions"],
        "command": ["python benchmarks/before_after.py"],
        "protocol": "Taken from the two tables above, which say how and when each figure was "
        "measured. Before: the version without a bulk reader of databases and without a summary "
        "of the archive, by the same scripts, with PYTHONPATH set to its source. A dash was not "
        "measured.",
        "tables": {
            "lines": {
                "about": "CPU seconds are those of a fresh process.",
                "columns": [{"name": n} for n in ("what", "unit", "before", "after", "aim")],
                "rows": rows,
            }
        },
    }
    (RESULTS / "before-after.json").write_text(json.dumps(content, indent=2) + "\n", "utf-8")


if __name__ == "__main__":
    main()
