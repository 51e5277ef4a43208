"""The scenarios' own topologies and plans."""
