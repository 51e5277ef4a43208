"""What must be equal for two measurements to be compared."""
