"""`RankwiseSampler` for Optuna."""
