"""What a data set looks like, in numbers that can be kept with a study of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankwise.lazy import lazy_names

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

__getattr__ = lazy_names(
    __name__,
    {
        "Context": "data",
        "DataEmbedding": "embedding",
        "DataRows": "data",
        "data_digest": "metafeatures",
        "handmade_features": "metafeatures",
        "meta_features": "metafeatures",
    },
)
