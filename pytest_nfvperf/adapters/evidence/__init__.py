"""Evidence records on disk, and the collectors of counters."""
