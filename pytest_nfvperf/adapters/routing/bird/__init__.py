"""BIRD 2 as a BGP speaker."""
