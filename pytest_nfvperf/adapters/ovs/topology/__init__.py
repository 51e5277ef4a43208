"""A topology built on a running OVS, and taken out again."""
