"""Surrogates that learn from the target study only."""
