"""How a testbed becomes real, or is simulated: one backend a kind of testbed."""
