"""What fulfils the ports on a real machine. Adapters never inherit adapters."""
