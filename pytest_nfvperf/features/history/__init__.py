"""Figures of many runs, and what changed: nfvperf history."""
