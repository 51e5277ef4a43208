"""Comparisons of several Open vSwitch (versions, settings) on the same tests: sides, decisions, and what is written."""
