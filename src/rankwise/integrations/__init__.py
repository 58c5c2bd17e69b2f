"""Integrations with Optuna and scikit-learn."""
