"""Versions of Open vSwitch that are kept beside the installed one: distributions' roots, prefixes, builds of a tree."""
