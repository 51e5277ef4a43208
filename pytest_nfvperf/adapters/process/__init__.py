"""Child processes that cannot outlive the run, and waiting for what they do."""
