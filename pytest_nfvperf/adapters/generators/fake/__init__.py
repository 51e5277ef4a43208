"""A generator and a DUT in one, simulated in virtual time."""
