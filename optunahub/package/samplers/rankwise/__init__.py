"""Rankwise's sampler for Optuna."""

from .sampler import RankwiseSampler


__all__ = ["RankwiseSampler"]
