"""The commands of `rankwise`, a module for each group; heavy imports wait until one runs."""
