"""Ask and tell, the optimization loop, and evaluation of objectives."""
