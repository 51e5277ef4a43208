"""Speakers that run already and belong to somebody else."""
