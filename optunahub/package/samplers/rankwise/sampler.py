"""The sampler as the library rankwise has it; nothing is changed here."""

from __future__ import annotations


try:
    from rankwise import RankwiseSampler
except ImportError as error:
    raise ImportError(
        "RankwiseSampler is part of the library rankwise, which could not be imported "
        f"({error}); install it: pip install -U rankwise"
    ) from error

__all__ = ["RankwiseSampler"]
