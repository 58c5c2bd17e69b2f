"""The command `rankwise predict`."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from rankwise.cli.console import AsJson, say, show_json


def predict(
    model: Annotated[Path, typer.Argument(help="A model of rankwise tune --save.")],
    data: Annotated[Path, typer.Argument(help="The rows to predict, with the same columns.")],
    out: Annotated[
        Path | None, typer.Option(help="Write the predictions to this CSV file.")
    ] = None,
    proba: Annotated[
        bool, typer.Option("--proba", help="Also write the probability of each class.")
    ] = False,
    header: Annotated[
        bool | None,
        typer.Option(
            "--header/--no-header",
            help="Whether the first line of the file has the names of the columns (default: "
            "detected).",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Predict the rows of a table with a saved model; writes CSV, one line per row.

    Example: rankwise predict model.skops new.csv --out predictions.csv
    """
    import pandas as pd

    from rankwise.cli.tune.plan import threads_for
    from rankwise.cli.tune.saved_model import load_model

    fitted = load_model(model)
    table = _rows(data, header, getattr(fitted, "feature_names_in_", ()))
    with threads_for(len(table)):
        columns: dict[str, Any] = {"prediction": _of(fitted, "predict", table)}
        if proba:
            chances = _of(fitted, "predict_proba", table)
            for k, name in enumerate(fitted.classes_):
                columns[f"probability of {name}"] = chances[:, k]
    found = pd.DataFrame(columns)
    if as_json:
        show_json(found.to_dict(orient="list"))
        return
    if out is None:
        found.to_csv(sys.stdout, index=False)
        return
    _write(found, out)
    say(f"{len(found)} predictions: {out}")


def _rows(path: Path, header: bool | None, columns: Iterable[str]) -> Any:
    """Read a table; whether it has a line of names is decided by the columns of the model.

    Names such as "2001" look like values where all rows are numbers.
    """
    from rankwise.tabular import read_table

    table, needed = read_table(path, header=header), set(columns)
    if header is None and not needed <= set(table.columns):
        for guess in (True, False):
            other = read_table(path, header=guess)
            if needed <= set(other.columns):
                return other
    return table


def _of(model: Any, what: str, table: Any) -> Any:
    """Call a method of the model, such as `predict`, with a table."""
    from rankwise.cli.tune.saved_model import ModelError
    from rankwise.errors import OptionError, RankwiseError

    if not hasattr(model, what):
        name = "classes" if what == "predict_proba" else "predictions"
        raise OptionError(f"the model has no {what}: it gives no probabilities of {name}")
    try:
        return getattr(model, what)(table)
    except RankwiseError:
        raise
    except Exception as error:  # estimators raise many kinds
        reason = str(error).strip().splitlines()[0]
        raise ModelError(f"the model cannot predict these rows: {reason}") from error


def _write(found: Any, out: Path) -> None:
    from rankwise._core.atomic_write import atomic_write
    from rankwise.cli.tune.saved_model import ModelError

    try:
        with atomic_write(out) as unfinished:
            found.to_csv(unfinished, index=False)
    except OSError as error:
        raise ModelError(f"{out} cannot be written ({error})") from error
