"""Ports: what the runs need from the world, as base classes with defaults that adapters inherit."""
