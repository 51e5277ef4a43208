"""The journal of what a run makes, who a process is, and the machine's lock."""
