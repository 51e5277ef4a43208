"""A running OVS, ours or the system's: processes, databases, control sockets."""
