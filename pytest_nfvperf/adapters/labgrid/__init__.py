"""Places of a labgrid coordinator, leased for the time of a run."""
