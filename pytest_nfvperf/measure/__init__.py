"""Measurements: trials, searches, comparisons, soaks. They work on ports and import no adapter."""
