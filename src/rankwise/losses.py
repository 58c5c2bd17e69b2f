"""Short name of `rankwise.surrogates.ranking.losses`: ranking losses with their gradients."""

from __future__ import annotations

from rankwise._core.lazy import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "ListMLE": "surrogates.ranking.losses",
        "ListNet": "surrogates.ranking.losses",
        "Lists": "surrogates.ranking.losses",
        "MeanSquaredError": "surrogates.ranking.losses",
        "Pointwise": "surrogates.ranking.losses",
        "RankNet": "surrogates.ranking.losses",
        "RankingLoss": "surrogates.ranking.losses",
        "gaussian_nll": "surrogates.ranking.losses",
        "make_loss": "surrogates.ranking.losses",
        "range_control": "surrogates.ranking.losses",
    },
)
