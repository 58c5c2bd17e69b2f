"""Strategies, which propose the next configuration of a study."""
