"""Deep Ranking Ensembles and ranking losses."""
