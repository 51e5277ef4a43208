"""Measurements by a pair of programs: a client in one namespace, a server in another."""
