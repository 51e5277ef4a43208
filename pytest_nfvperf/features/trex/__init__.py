"""TRex as the generator of a testbed."""
