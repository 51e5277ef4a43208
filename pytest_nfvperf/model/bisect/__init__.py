"""Noisy bisection: which of an ordered row of versions brought a change in. Pure."""
