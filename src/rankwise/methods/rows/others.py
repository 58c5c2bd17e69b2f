"""The portfolio of past configurations, and Optuna's samplers."""

from __future__ import annotations

from rankwise.methods import build_single, build_transfer
from rankwise.methods.method import Method

METHODS = (
    Method(
        name="portfolio",
        summary="past configurations that were good together, then random search",
        idea="Past configurations that together were good on all past studies, one after the "
        "other; then random configurations",
        family="warm-start",
        build=build_transfer.portfolio,
        transfer=True,
        paper="Wistuba et al. 2015",
    ),
    Method(
        name="tpe",
        summary="Optuna's TPE sampler",
        idea="Optuna's TPE sampler with its defaults, for comparison",
        family="optuna",
        build=build_single.optuna_sampler,
        fixed={"sampler": "tpe"},
        paper="Bergstra et al. 2011",
    ),
    Method(
        name="gp-optuna",
        summary="Optuna's GP sampler",
        idea="Optuna's GP sampler with its defaults, for comparison",
        family="optuna",
        build=build_single.optuna_sampler,
        fixed={"sampler": "gp"},
        needs="neural",
    ),
)
