"""Surrogates that model all tasks with one Gaussian process: `icm` and `scot`."""
