"""Trials, searches and sweeps, over the ports alone."""
