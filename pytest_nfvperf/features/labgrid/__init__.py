"""Testbeds that labgrid lends."""
