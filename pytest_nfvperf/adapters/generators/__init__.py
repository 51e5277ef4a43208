"""Traffic generators behind one port."""
