"""The best configuration as a program that needs pandas and scikit-learn only."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from rankwise.cli.tune.code import code_of
from rankwise.cli.tune.plan import MODEL, PREPARE, Plan
from rankwise.tabular import Preparation, Problem

_SKLEARN = "sklearn."
_TEMPLATE = """\
{imports}

table = pd.read_csv({data!r}){rows}
X, y = table.drop(columns={without!r}), table[{target!r}]
model = {model}
model.fit(X, y)
print(model.predict(X.head()))
"""


def plain_code(plan: Plan, best: Any) -> str | None:
    """The program, or None if only `rankwise.tabular` can read or prepare the table.

    The plain preparation is fitted and compared with ours on the rows of the search, so that the
    program does what the search did.

    Args:
        plan: the data of the search.
        best: the pipeline of the best configuration.
    """
    model = best.named_steps[MODEL]
    if not type(model).__module__.startswith(_SKLEARN):
        return None
    try:
        plain = _plain_preparation(best.named_steps[PREPARE], plan.train)
        table = _plain_table(plan)
    except Exception:  # pandas and scikit-learn refuse in many ways what our reader accepts
        return None
    if plain is None or table is None:
        return None
    from sklearn.pipeline import Pipeline

    pipeline = Pipeline([*plain, (MODEL, model)])
    imports, code = code_of(pipeline)
    problem, request = plan.problem, plan.request
    without = [name for name in table.columns if name not in problem.X.columns]
    limits = ""
    if len(problem) > request.rows:
        limits = f"\ntable = table.sample({request.rows}, random_state={request.seed})"
        limits += "  # as many as in the search; fitting all rows may be slow"
    return _TEMPLATE.format(
        imports="\n".join(["import pandas as pd", *sorted(imports)]),
        data=request.data,
        rows=limits,
        without=without,
        target=problem.target,
        model=code,
    )


def _plain_table(plan: Plan) -> Any:
    """The table as `pandas.read_csv` reads it; None if that differs from how we read it."""
    import pandas as pd

    problem = plan.problem
    table = pd.read_csv(plan.request.data)
    names = list(problem.X.columns)
    if not {*names, problem.target} <= set(table.columns) or len(table) != len(problem):
        return None
    y = problem.y if problem.classes is None else problem.classes[problem.y.astype(int)]
    same = np.array_equal(table[problem.target].to_numpy(), y) and table[names].equals(problem.X)
    return table if same else None


def _plain_preparation(preparation: Preparation, train: Problem) -> list[Any] | None:
    """Steps of scikit-learn that do what a preparation does; None if there are none."""
    from sklearn.base import clone
    from sklearn.compose import ColumnTransformer
    from sklearn.pipeline import Pipeline

    encode = preparation._transformer()
    [(_, numbers, number_names), (_, texts, text_names)] = encode.transformers
    steps = [(_step_name(step), step) for _, step in getattr(numbers, "steps", ())]
    if list(number_names) == list(train.X.columns):
        plain = steps
    else:
        inner = Pipeline(steps) if steps else "passthrough"
        parts = [("numbers", inner, list(number_names)), ("texts", texts, list(text_names))]
        plain = [(PREPARE, ColumnTransformer([part for part in parts if part[2]]))]
    made: Any = train.X
    for _, step in plain:
        made = clone(step).fit_transform(made)
    expected = preparation.transform(train.X)
    same = np.array_equal(np.asarray(made, dtype=float), expected, equal_nan=True)
    return plain if same else None


def _step_name(step: Any) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", type(step).__name__).split("-")[-1].lower()
