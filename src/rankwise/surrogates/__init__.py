"""Surrogates: models that learn from tasks and predict a posterior. One file each."""
