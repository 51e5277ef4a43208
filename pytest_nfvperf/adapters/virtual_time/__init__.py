"""Commands in a guest that lives in virtual time, where a second is a count of instructions."""
