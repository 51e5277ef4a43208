"""The pytest plugin: options, hooks and the order of things. Import-light."""

from __future__ import annotations
