"""distBO: transfer between data sets with similar distributions."""
