"""OpenFlow on a bridge: flows and statistics."""
