"""What this machine has, lacks and is (doctor, the fingerprint), and the removal of what dead runs left on it."""
