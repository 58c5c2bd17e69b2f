"""The commands `rankwise bench list`, `run` and `report`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from rankwise.bench import benchmarks as registry
from rankwise.bench.base import INITIAL
from rankwise.errors import BenchmarkDataError, OptionError

app = typer.Typer(
    help="Run methods on benchmarks and report the results.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)

_Data = Annotated[
    Path | None,
    typer.Option(
        envvar=registry.DATA_VARIABLE, help="Folder of the data files.", show_envvar=True
    ),
]
_Out = Annotated[Path, typer.Option(help="Folder of the results.")]


@app.command("list")
def list_benchmarks(
    data: _Data = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the benchmarks; show which data or packages are missing.

    Example: rankwise bench list --data ~/data
    """
    rows = [_describe(name, data) for name in registry.available()]
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table("name", "tasks", "source tasks", "columns", "description, or what is missing")
    for row in rows:
        missing = row["missing"]
        last = f"[yellow]{escape(missing)}[/]" if missing else escape(row["summary"])
        numbers = (row["tasks"], row["past"], row["columns"])
        table.add_row(row["name"], *("-" if n is None else str(n) for n in numbers), last)
    table.add_row(
        "5860, ...", "-", "-", "-", "any search space of HPO-B by its id, from its files"
    )
    Console().print(table)
    print("Modifiers: NAME:validation, NAME:fold, NAME:inverted, NAME:shuffled (see the docs).")


def _describe(name: str, data: Path | None) -> dict[str, Any]:
    source = registry.get(name)
    facts: dict[str, Any] = {"name": name, "summary": source.summary}
    try:
        benchmark = registry.load(name, data)
    except BenchmarkDataError as error:
        return {**facts, "tasks": None, "past": None, "columns": None, "missing": str(error)}
    past = len(benchmark.test) - 1 if benchmark.leave_one_out else len(benchmark.train)
    sizes = {"tasks": len(benchmark.test), "past": past, "columns": benchmark.encoder.n_columns}
    return {**facts, **sizes, "missing": ""}


@app.command("run")
def run_benchmarks(
    on: Annotated[str, typer.Option(help="Benchmarks, separated by commas.")],
    methods: Annotated[
        str, typer.Option(help='Methods, optionally with options: "dre,forest:trees=50,random".')
    ] = "random,default,portfolio,gp,dre",
    seeds: Annotated[
        str, typer.Option(help='Number of seeds, or a list of seeds: "5", "0,3,4" or "3,".')
    ] = "5",
    trials: Annotated[
        int, typer.Option(min=1, help="Number of evaluations after the initial points.")
    ] = 50,
    initial: Annotated[
        int, typer.Option(min=0, max=5, help="Number of given initial points.")
    ] = 5,
    jobs: Annotated[int, typer.Option(help="Number of parallel processes; -1: all cores.")] = 1,
    out: _Out = Path("runs/bench"),
    data: _Data = None,
    backend: Annotated[
        str, typer.Option(help='Run on a cluster: "dask://host:port" or "ray".')
    ] = "",
    progress: Annotated[bool | None, typer.Option(help="Show a progress bar.")] = None,
) -> None:
    """Run methods on benchmarks; runs that already have a result are skipped.

    Example: rankwise bench run --on tst-svm --methods dre,gp,random --seeds 5 --trials 50 --jobs 2
    """
    from rankwise.bench.runner import run, split_methods

    cells = run(
        list(dict.fromkeys(filter(None, on.split(",")))),
        split_methods(methods),
        seeds=_seeds(seeds),
        trials=trials,
        initial=initial,
        out=out,
        data=data,
        jobs=jobs,
        backend=backend,
        progress=progress,
    )
    failed = sum(not cell.is_done(out) for cell in cells)
    print(f"{len(cells) - failed} of {len(cells)} cells have a result in {out}", file=sys.stderr)
    if failed:
        print(
            f"{failed} failed: rankwise bench report --out {out} shows the reasons; run the same "
            "command again to repeat them",
            file=sys.stderr,
        )
        raise typer.Exit(1)


def _seeds(text: str) -> list[int]:
    try:
        numbers = [int(part) for part in text.removesuffix(",").split(",")]
    except ValueError:
        numbers = [-1]
    if min(numbers) < 0 or (numbers == [0] and "," not in text):
        raise OptionError(
            f"--seeds is a number of seeds or a list such as 0,3,4 (3, for one), not {text!r}"
        )
    return list(range(numbers[0])) if "," not in text else sorted(set(numbers))


@app.command("report")
def report_benchmarks(
    out: _Out = Path("runs/bench"),
    on: Annotated[str, typer.Option(help="Only these benchmarks.")] = "",
    methods: Annotated[str, typer.Option(help="Only these methods, in this order.")] = "",
    marks: Annotated[
        str, typer.Option(help='Numbers of trials that the tables show: "5,10,25".')
    ] = "",
    published: Annotated[
        Path | None, typer.Option(help="Folder of published HPO-B results to include.")
    ] = None,
    to: Annotated[
        Path | None, typer.Option(help="Folder to write to; by default the folder of the results.")
    ] = None,
) -> None:
    """Write a report as one HTML page, as Markdown and as figures.

    Example: rankwise bench report --out runs/bench --marks 5,10,25,50
    """
    from rankwise.bench.cells import asked, collect
    from rankwise.bench.report import write_report
    from rankwise.bench.runner import split_methods

    runs = collect(out)
    if published is not None:
        from rankwise.bench.published import read_published

        ours = {(run.benchmark, run.trials) for run in runs if run.initial == INITIAL}
        for space, trials in sorted(ours):
            runs += read_published(published, trials=trials, spaces=[space])
    if on:
        wanted = on.split(",")
        runs = [run for run in runs if run.benchmark in wanted]
    if methods:
        order = split_methods(methods)
        runs = sorted((r for r in runs if r.method in order), key=lambda r: order.index(r.method))
    if not runs:
        raise OptionError(f"there are no results of these benchmarks and methods in {out}")
    try:
        steps = [int(mark) for mark in marks.split(",")] if marks else None
    except ValueError:
        raise OptionError(f"--marks is a list such as 5,10,25, not {marks!r}") from None
    for path in write_report(runs, to or out, marks=steps, environment=asked(out)):
        print(path)
