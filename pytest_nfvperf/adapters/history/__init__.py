"""The directory of a history, and the change points of its series."""
