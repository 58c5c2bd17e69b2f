"""The command `rankwise builtin`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from rankwise.cli.console import AsJson, show_json, show_table

_LICENCE = "Apache-2.0"


def show_builtin(
    learner: Annotated[
        str, typer.Argument(help="Show the data sets that this learner was evaluated on.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """List the built-in past: tuning records of many data sets that come with the package.

    Example: rankwise builtin svc
    """
    from rankwise.builtin.records import FOLDER, KINDS, VERSION, available, read_records
    from rankwise.errors import check_name

    if learner:
        check_name("built-in past", learner, available())
    names = [learner] if learner else available()
    found = [read_records(n, kind) for n in names for kind in KINDS if n in available(kind)]
    facts: dict[str, Any] = {
        "version": VERSION,
        "licence": _LICENCE,
        "notice": str(FOLDER / "NOTICE"),
        "bytes": sum(path.stat().st_size for path in FOLDER.iterdir()),
        "records": [
            {
                "learner": records.learner,
                "kind": records.kind,
                "data_sets": list(records.datasets),
                "trials": len(records),
                "hyperparameters": [hp.name for hp in records.hyperparameters],
                "metrics": list(records.scores),
            }
            for records in found
        ],
    }
    if as_json:
        show_json(facts)
    elif learner:
        _show_learner(facts)
    else:
        _show_all(facts)


def _show_all(facts: dict[str, Any]) -> None:
    rows = [
        (r["learner"], r["kind"], ", ".join(r["metrics"]), len(r["data_sets"]), r["trials"])
        for r in facts["records"]
    ]
    columns = ("learner", "kind", "metrics", "data sets", "trials")
    show_table(columns, rows, numbers=2, title=f"built-in past {facts['version']}")
    print(
        f"{sum(r['trials'] for r in facts['records'])} trials, {facts['bytes'] / 2**20:.1f} MB; "
        f"licence: {facts['licence']}; data sets and their sources: {facts['notice']}"
    )


def _show_learner(facts: dict[str, Any]) -> None:
    from rankwise.builtin.records import dataset_facts

    known = dataset_facts()
    for record in facts["records"]:
        rows = []
        for name in record["data_sets"]:
            about = known[record["kind"]][name]
            rows.append((name, about["source"], about["n"], about["p"]))
        title = f"{record['learner']}, {record['kind']}: built-in past {facts['version']}"
        show_table(("data set", "source", "rows", "columns"), rows, numbers=2, title=title)
