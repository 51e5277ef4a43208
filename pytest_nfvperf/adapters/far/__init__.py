"""Nodes of a testbed that are on other machines: what this end asks, and what the far end does."""

from __future__ import annotations


def what_to_install(error: ModuleNotFoundError) -> str:
    """Where a module for them is missing."""
    return f"nodes on other machines need {error.name}: pip install 'pytest-nfvperf[ssh]'"
