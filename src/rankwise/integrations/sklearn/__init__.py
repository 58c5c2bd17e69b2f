"""`RankwiseSearchCV` for scikit-learn."""
