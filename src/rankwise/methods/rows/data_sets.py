"""distBO, which compares data sets by their rows, and the baselines of its paper."""

from __future__ import annotations

from rankwise.methods import build_single, build_transfer
from rankwise.methods.method import Method
from rankwise.methods.rows.principal import GAUSSIAN_PROCESS
from rankwise.methods.rows.transfer import ADAPTIVE_BLR

_DISTRIBUTIONAL = "distbo.surrogate:DistributionalTransfer"
_PAPER = "Law et al. 2019"


def _distributional(
    *, name: str, summary: str, idea: str, kind: str, description: str, use_when: str = ""
) -> Method:
    return Method(
        name=name,
        summary=summary,
        idea=idea,
        family="data-sets",
        build=build_transfer.distributional,
        transfer=True,
        surrogate=_DISTRIBUTIONAL,
        fixed={"kind": kind, "description": description},
        paper=_PAPER,
        weak_on=("conditional",),
        use_when=use_when,
        needs="neural",
    )


METHODS = (
    _distributional(
        name="dist-gp",
        summary="one Gaussian process of all studies that compares their data sets",
        idea="One Gaussian process of all studies, over configurations and an embedding of the "
        "data sets that is learnt with it; see [Start from similar data sets](data.md)",
        kind="gp",
        description="data",
        use_when="with past studies and a description of each data set",
    ),
    _distributional(
        name="dist-blr",
        summary="dist-gp with Bayesian linear regression on a network",
        idea="`dist-gp` with Bayesian linear regression on a network instead of the Gaussian "
        "process; its cost is linear in the number of trials",
        kind="blr",
        description="data",
    ),
    Method(
        name="dre-data",
        summary="dre with the data set as an additional input",
        idea="`dre` whose networks receive what `dist-gp` learnt about the data set as input",
        family="data-sets",
        build=build_transfer.described_ranking,
        transfer=True,
        surrogate="ranking.dre:DeepRankingEnsemble",
        needs="neural",
    ),
    _distributional(
        name="manual-gp",
        summary="dist-gp with meta-features instead of the rows of data sets",
        idea="`dist-gp` with thirteen meta-features of each data set instead of its rows",
        kind="gp",
        description="manual",
    ),
    _distributional(
        name="manual-blr",
        summary="dist-blr with meta-features instead of the rows of data sets",
        idea="`dist-blr` with thirteen meta-features of each data set instead of its rows",
        kind="blr",
        description="manual",
    ),
    _distributional(
        name="multi-gp",
        summary="dist-gp without knowledge of the data sets",
        idea="`dist-gp` that compares studies by their trials alone",
        kind="gp",
        description="index",
    ),
    ADAPTIVE_BLR.alias("multi-blr", "the distBO paper"),
    Method(
        name="init-gp",
        summary="best configurations of three similar past studies, then gp",
        idea="`init` from three similar past studies, then `gp`",
        family="data-sets",
        build=build_transfer.warm_start,
        transfer=True,
        fixed={"similar": 3, "points": 3, "then": "gp"},
        paper=_PAPER,
        weak_on=("conditional",),
    ),
    Method(
        name="init-blr",
        summary="best configurations of three similar past studies, then none-blr",
        idea="`init` from three similar past studies, then `none-blr`",
        family="data-sets",
        build=build_transfer.warm_start,
        transfer=True,
        fixed={"similar": 3, "points": 3, "then": "none-blr"},
        fallback="none-blr",
        paper=_PAPER,
        weak_on=("conditional",),
        needs="neural",
    ),
    GAUSSIAN_PROCESS.alias("none-gp", "the distBO paper"),
    Method(
        name="none-blr",
        summary="Bayesian linear regression on a network, without past studies",
        idea="Bayesian linear regression on a network of the target study alone; its standard "
        "deviations are too small",
        family="data-sets",
        build=build_single.alone,
        surrogate="distbo.surrogate:NetworkRegression",
        paper=_PAPER,
        weak_on=("conditional",),
        needs="neural",
    ),
)
