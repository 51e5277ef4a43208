"""What nodes on other machines need of this one. Importable without it."""

from __future__ import annotations


def what_to_install(error: ModuleNotFoundError) -> str:
    """Where a module for them is missing."""
    return f"nodes on other machines need {error.name}: pip install 'pytest-nfvperf[ssh]'"
