"""The testbed as data, and how a topology is named on it."""
