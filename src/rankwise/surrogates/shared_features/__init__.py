"""Surrogates with a network that learns from source tasks: `fsbo`, `dklm`, `ablr` and `gcp`."""
