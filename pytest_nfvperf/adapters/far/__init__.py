"""Nodes of a testbed that are on other machines: what this end asks, and what the far end does."""
