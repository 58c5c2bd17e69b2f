"""The empirical-Bayes transfer GP: `eb-gp` and `eb-net`."""
