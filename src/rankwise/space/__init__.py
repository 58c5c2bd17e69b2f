"""Search spaces: encoding of configurations as rows of numbers, designs and neighbours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankwise._core.lazy import lazy_names

if TYPE_CHECKING:
    from rankwise.space.design import Design
    from rankwise.space.encoder import Encoder
    from rankwise.space.shorthand import make_space

__all__ = [
    "Design",
    "Encoder",
    "make_space",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Design": "space.design",
        "Encoder": "space.encoder",
        "make_space": "space.shorthand",
    },
)
