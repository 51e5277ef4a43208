"""The journal of what a run makes, and who a process is."""
