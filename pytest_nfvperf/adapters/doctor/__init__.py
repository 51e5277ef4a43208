"""What this machine and a lab's testbed need: doctor's checks."""
