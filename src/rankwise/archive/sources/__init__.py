"""One reader per kind of source of past studies."""
