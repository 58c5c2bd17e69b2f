"""What a data set looks like, in numbers that can be kept with a study of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankwise.lazy import lazy_names

if TYPE_CHECKING:
    from rankwise.context.metafeatures import data_digest, meta_features

__all__ = ["data_digest", "meta_features"]

__getattr__ = lazy_names(
    __name__, {"data_digest": "metafeatures", "meta_features": "metafeatures"}
)
