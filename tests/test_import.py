"""Importing the package is cheap, and its public names are there."""

from __future__ import annotations

import subprocess
import sys

import pytest
from support import ROOT

import rankwise

SOURCE = ROOT / "src" / "rankwise"
HEAVY = ("torch", "ConfigSpace", "sklearn", "optuna", "pandas", "matplotlib", "numpy")


def modules_after(statement: str) -> set[str]:
    code = f"import sys; {statement}; print(*sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(out.stdout.split())


def test_importing_loads_nothing_heavy():
    assert not modules_after("import rankwise") & set(HEAVY)


def test_listing_methods_loads_no_model():
    loaded = modules_after("import rankwise; rankwise.methods.available()")
    assert not loaded & {"torch", "ConfigSpace", "sklearn"}


def test_the_sampler_is_imported_without_what_only_a_proposal_needs():
    loaded = modules_after("from rankwise import RankwiseSampler")
    heavy = {"torch", "ConfigSpace", "sklearn", "pandas", "sqlalchemy"}
    assert not loaded & {*heavy, "scipy.stats", "scipy.optimize", "scipy.spatial", "scipy.sparse"}


def test_a_forest_needs_no_torch():
    statement = (
        "import rankwise; "
        "o = rankwise.Optimizer({'x': ['a', 'b', 'c']}, method='forest', seed=0); "
        "o.tell(o.ask()[0], 1.0)"
    )
    assert "torch" not in modules_after(statement)


def test_a_space_of_networks_needs_no_torch():
    statement = (
        "from rankwise.learners import ConvNetClassifier, convnet_space; convnet_space((8, 8))"
    )
    assert not modules_after(statement) & {"torch", "skorch"}


@pytest.mark.parametrize("name", rankwise.__all__)
def test_every_public_name_exists_and_is_documented(name):
    assert getattr(rankwise, name).__doc__
    assert name in dir(rankwise)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="nothing_like_that"):
        _ = rankwise.nothing_like_that


SURROGATES = sorted(
    ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__")
    for path in (SOURCE / "surrogates").rglob("*.py")
)


def test_surrogates_need_no_search_space_and_no_optimizer():
    """All modules are imported in one process: none of them may load the others' packages."""
    pytest.importorskip("torch")
    loaded = modules_after(f"import {', '.join(SURROGATES)}")
    assert not loaded & {"ConfigSpace", "optuna", "rankwise.run", "rankwise.strategies"}
    assert "rankwise.surrogates.single_study.forest" in loaded


def test_packages_work_as_attributes_and_complete_to_public_names():
    import rankwise

    assert callable(rankwise.report.write_report)  # as the README writes it
    for name in ("report", "archive", "estimators", "methods", "space", "bench"):
        package = getattr(rankwise, name)
        assert set(dir(package)) == set(package.__all__)
