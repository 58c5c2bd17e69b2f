"""Numerical building blocks that several surrogates share."""
