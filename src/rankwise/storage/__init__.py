"""Optuna storages: runs as studies, and facts kept with them."""
