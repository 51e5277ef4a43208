"""Runs in a guest whose clock counts instructions."""
