"""A source, a method and a benchmark for Rankwise from a package of its own."""
