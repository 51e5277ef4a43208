"""Frozen data and pure functions; standard library only."""
