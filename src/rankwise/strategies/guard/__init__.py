"""The guard: falls back to a method without transfer when past studies mislead."""
