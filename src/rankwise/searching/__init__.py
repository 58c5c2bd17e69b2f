"""What `rankwise.RankwiseSearchCV` is made of."""
