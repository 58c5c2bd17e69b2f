"""Contexts: descriptions of data sets by numbers that can be stored with a study."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankwise._core.lazy import lazy_names

if TYPE_CHECKING:
    from rankwise.context.data import Context, DataRows
    from rankwise.context.embedding import DataEmbedding
    from rankwise.context.metafeatures import data_digest, handmade_features, meta_features

__all__ = [
    "Context",
    "DataEmbedding",
    "DataRows",
    "data_digest",
    "handmade_features",
    "meta_features",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Context": "context.data",
        "DataEmbedding": "context.embedding",
        "DataRows": "context.data",
        "data_digest": "context.metafeatures",
        "handmade_features": "context.metafeatures",
        "meta_features": "context.metafeatures",
    },
)
