"""Helpers that every other package may use and that know nothing of optimization."""
