"""Models in files: the format of skops, which is read without running code from the file."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

from rankwise._core.atomic_write import atomic_write
from rankwise._core.extras import missing
from rankwise.cli.tune.plan import MODEL, Plan, threads_for
from rankwise.errors import OptionError, RankwiseError

SUFFIX = ".skops"
_TRUSTED = (
    "collections.OrderedDict",
    "numpy.dtype",
    "rankwise.tabular.labels.Labelled",
    "rankwise.tabular.preparation.Preparation",
    "sklearn.neighbors._ball_tree.BallTree",
    "sklearn.neighbors._kd_tree.KDTree",
    "sklearn.tree._tree.Tree",
    "catboost.core.CatBoostClassifier",
    "catboost.core.CatBoostRegressor",
    "catboost.core._CatBoostBase",
    "lightgbm.basic.Booster",
    "lightgbm.sklearn.LGBMClassifier",
    "lightgbm.sklearn.LGBMRegressor",
    "xgboost.core.Booster",
    "xgboost.sklearn.XGBClassifier",
    "xgboost.sklearn.XGBRegressor",
)
_TRUSTED_MODULES = (
    "sklearn._loss.",
    "sklearn.ensemble._hist_gradient_boosting.",
    "sklearn.linear_model._sgd_fast.",
    "sklearn.metrics._dist_metrics.",
    "sklearn.neural_network._stochastic_optimizers.",
)
"""What the files of `rankwise tune` may contain beside the types that skops trusts itself."""


class ModelError(RankwiseError):
    """A file is no model that can be used."""


def check_save(path: str | None) -> None:
    """Raise before the search begins if its model could not be saved.

    Raises:
        OptionError: skops is missing, or the path cannot be written.
    """
    if path is None:
        return
    _skops()
    target = Path(path)
    if target.suffix != SUFFIX:
        raise OptionError(f"--save writes the skops format: let {path} end with {SUFFIX}")
    if not target.absolute().parent.is_dir():
        raise OptionError(f"--save: there is no folder {target.absolute().parent}; create it")


def save_model(plan: Plan, best: Any, path: str) -> Path:
    """Fit the best configuration to all rows and save it.

    The model predicts labels as they are in the table.

    Args:
        plan: the data of the search; at most `--rows` rows are fitted.
        best: the pipeline of the best configuration.
        path: the file.

    Raises:
        ModelError: the file cannot be written.
    """
    from sklearn.base import clone

    from rankwise.tabular.labels import Labelled

    problem = plan.problem.sample(plan.request.rows, plan.request.seed)
    model, y = clone(best), problem.y
    if problem.classes is not None:
        y = problem.classes[y.astype(int)]
        if not type(model.named_steps[MODEL]).__module__.startswith("sklearn."):
            model = Labelled(model)
    with threads_for(len(problem)):
        model.fit(problem.X, y)
    written = _skops().dumps(model, compression=zipfile.ZIP_DEFLATED)
    try:
        with atomic_write(path) as unfinished:
            unfinished.write_bytes(written)
    except OSError as error:
        raise ModelError(f"the model cannot be written to {path} ({error})") from error
    return Path(path)


def load_model(path: Path) -> Any:
    """The model of a file; nothing but known types is loaded.

    Raises:
        ModelError: there is no such file, it is no model, or it has types that we do not know.
    """
    skops = _skops()
    if not path.is_file():
        raise ModelError(f"there is no file {path}; check the path")
    try:
        found = skops.get_untrusted_types(file=path)
    except Exception as error:  # a damaged file fails in many ways
        raise ModelError(f"{path} is no model in the skops format ({error})") from error
    unknown = [t for t in found if t not in _TRUSTED and not t.startswith(_TRUSTED_MODULES)]
    if unknown:
        raise ModelError(
            f"{path} has types that files of rankwise tune --save do not have: "
            f"{', '.join(unknown)}; if you trust it, load it with skops.io.load(..., trusted=...)"
        )
    try:
        return skops.load(path, trusted=found)
    except Exception as error:
        raise ModelError(f"{path} cannot be loaded ({error})") from error


def _skops() -> Any:
    try:
        import skops.io
    except ImportError as error:
        raise missing("a model in a file", "skops", "save") from error
    return skops.io
