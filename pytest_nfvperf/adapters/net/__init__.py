"""Namespaces, links, the journal of what was made, and the reaper."""
