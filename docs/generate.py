"""Writes the generated tables of the README and of the pages in docs.

A table stands between two comments. The first one names it:

    <!-- generated: alone-peers/rank -->
    <!-- end -->

`FILE/TABLE` is a table of `benchmarks/results/FILE.json` with its description, and `FILE/setup`
the command, the date, the machine and the protocol of the file. A name without a slash is a view:
some rows and columns of such a table, listed under "views" of the file. `methods` is the table of
all methods, from the registry `rankwise.methods`.

    python docs/generate.py            rewrites the pages
    python docs/generate.py --check    fails if a page is out of date
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
BLOCK = re.compile(r"^<!-- generated: (\S+) -->\n(.*?)^<!-- end -->$", re.DOTALL | re.MULTILINE)
MISSING = "–"

Table = dict[str, Any]


def pages() -> list[Path]:
    """README.md and every page below docs."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def results() -> dict[str, dict[str, Any]]:
    """Content of every results file, by its name without suffix."""
    return {p.stem: json.loads(p.read_text("utf-8")) for p in sorted(RESULTS.glob("*.json"))}


def sources() -> dict[str, Callable[[], str]]:
    """Functions that write the generated blocks, by the name in the marker."""
    found: dict[str, Callable[[], str]] = {}
    for stem, content in results().items():
        found[f"{stem}/setup"] = lambda content=content: setup(content)
        for name, table in content["tables"].items():
            found[f"{stem}/{name}"] = lambda table=table: f"{table['about']}\n\n{markdown(table)}"
        for name, view in content.get("views", {}).items():
            if name in found:
                raise ValueError(f"{stem}.json: two views are called {name!r}")
            table = content["tables"][view["table"]]
            found[name] = lambda table=table, view=view: markdown(select(table, view))
    found["methods"] = methods_table
    return found


def render(text: str, known: dict[str, Callable[[], str]]) -> str:
    """A page with every generated block written anew."""

    def block(match: re.Match[str]) -> str:
        name = match[1]
        if name not in known:
            raise ValueError(f"no table is called {name!r}; benchmarks/results has the tables")
        return f"<!-- generated: {name} -->\n{known[name]()}\n<!-- end -->"

    return BLOCK.sub(block, text)


def methods_table() -> str:
    """The table of all methods, from the registry and `benchmarks/results/method-cost.json`."""
    from rankwise import methods

    costs = results()["method-cost"]["tables"]["relative"]
    cost_columns = [{"name": column["name"]} for column in costs["columns"][1:]]
    cost_of = {name: cells for name, *cells in costs["rows"]}
    rows = []
    for method in map(methods.get, methods.available()):
        past = "yes" if method.transfer else "no"
        weak = ", ".join(method.weak_on) or None
        cost = cost_of.get(method.name, [None] * len(cost_columns))
        about = [method.idea, method.paper or None, past, weak, method.needs or None]
        rows.append([method.name, *about, *cost])
    names = (
        "idea",
        "paper",
        "learns from past studies",
        "less efficient on spaces that are",
        "needs the extra",
    )
    columns = [{"name": "method", "code": True}, *({"name": name} for name in names)]
    return markdown({"columns": [*columns, *cost_columns], "rows": rows})


def setup(content: dict[str, Any]) -> str:
    """The command of a results file, and where and how it was run."""
    command = "\n".join(["```bash", *content["command"], "```"])
    facts = [content[key] for key in ("date", "machine", "versions") if content.get(key)]
    where = "; ".join(facts) + ". " if facts else ""
    return f"{command}\n\n{where}{content['protocol']}"


def select(table: Table, view: dict[str, Any]) -> Table:
    """The rows and columns of a table that a view names, in the order of the view.

    Args:
        table: a table of a results file.
        view: "columns" is a list of names, "rows" maps a column to the values that are kept, and
            "rename" maps names of columns to the names that are shown. All are optional.
    """
    names = [column["name"] for column in table["columns"]]
    rows = table["rows"]
    for name, kept in view.get("rows", {}).items():
        at = names.index(name)
        rows = [row for value in kept for row in rows if row[at] == value]
    chosen = [names.index(name) for name in view.get("columns", names)]
    shown = view.get("rename", {})
    columns = [table["columns"][k] for k in chosen]
    within = table.get("best_within")
    return {
        "best_within": within if within in [c["name"] for c in columns] else None,
        "columns": [{**c, "label": shown.get(c["name"], c["name"])} for c in columns],
        "rows": [[row[k] for k in chosen] for row in rows],
    }


def markdown(table: Table) -> str:
    """A table in Markdown, with the best value of a column in bold where the file asks for it."""
    columns, rows = table["columns"], table["rows"]
    names = [column["name"] for column in columns]
    within = table.get("best_within")
    groups = [row[names.index(within)] if within else None for row in rows]
    lines = [
        "| " + " | ".join(column.get("label", column["name"]) for column in columns) + " |",
        "|" + " --- |" * len(columns),
    ]
    for group, row in zip(groups, rows, strict=True):
        cells = []
        for k, column in enumerate(columns):
            text = shown(row[k], column)
            peers = [other[k] for g, other in zip(groups, rows, strict=True) if g == group]
            bold = "best" in column and is_best(row[k], peers, column["best"])
            cells.append(f"**{text}**" if bold else text)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def is_best(cell: Any, peers: list[Any], direction: str) -> bool:
    """True if no other cell has a smaller ("min") or larger ("max") value."""
    values = [value(peer) for peer in peers if value(peer) is not None]
    best = (min if direction == "min" else max)(values, default=None)
    return best is not None and value(cell) == best


def value(cell: Any) -> float | None:
    """The number of a cell, without its interval or standard error; None if it has none."""
    if isinstance(cell, dict):
        return float(cell["value"])
    return float(cell) if isinstance(cell, int | float) else None


def shown(cell: Any, column: dict[str, Any]) -> str:
    """One cell as text."""
    if cell is None:
        return MISSING
    if isinstance(cell, dict) and "se" in cell:
        error = {"digits": column.get("se_digits", column.get("digits"))}
        return f"{number(cell['value'], column)} ± {number(cell['se'], error)}"
    if isinstance(cell, dict):
        low, high = number(cell["low"], column), number(cell["high"], column)
        return f"{number(cell['value'], column)} [{low}, {high}]"
    if isinstance(cell, list):
        return column.get("join", ", ").join(shown(part, column) for part in cell)
    if isinstance(cell, int | float):
        return number(cell, column)
    return f"`{cell}`" if column.get("code") else str(cell)


def number(x: float, column: dict[str, Any]) -> str:
    """A number with the decimals or significant digits of its column, as in the file if none."""
    sign = "+" if column.get("signed") else ""
    digits = column.get("digits")
    if "significant" in column and x:
        digits = max(0, column["significant"] - 1 - math.floor(math.log10(abs(x))))
    text = f"{x:{sign}}" if digits is None else f"{x:{sign}.{digits}f}"
    return text + column.get("unit", "")


def main(arguments: list[str] | None = None) -> int:
    """Rewrites the pages, or says which ones are out of date."""
    parser = argparse.ArgumentParser(description="Write the generated tables of the pages.")
    parser.add_argument("--check", action="store_true", help="fail if a page is out of date")
    check = parser.parse_args(arguments).check
    known = sources()
    stale = []
    for page in pages():
        before = page.read_text("utf-8")
        after = render(before, known)
        if after != before:
            stale.append(page.relative_to(ROOT).as_posix())
            if not check:
                page.write_text(after, "utf-8")
    if stale:
        print(("out of date: " if check else "written: ") + ", ".join(stale))
    if check and stale:
        print("run: python docs/generate.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
