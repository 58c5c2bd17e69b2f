"""The commands `rankwise tune`, `resume` and `report`."""
