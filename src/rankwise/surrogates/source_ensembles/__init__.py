"""Ensembles of one Gaussian process per source task."""
