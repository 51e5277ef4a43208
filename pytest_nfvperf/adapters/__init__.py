"""The ports on a real machine."""
