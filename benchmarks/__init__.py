"""The project's own figures (``make bench``): what it must reach, measured here and now, never asserted."""
