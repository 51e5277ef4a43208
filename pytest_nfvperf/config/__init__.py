"""Reads what users write (testbed, SLA) into the model, and says where it is wrong."""
