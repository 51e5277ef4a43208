"""Evidence records as data."""
