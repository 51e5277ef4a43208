"""Removal of what runs made: above everything that makes something."""
