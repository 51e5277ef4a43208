"""What a bisection does to the machine: it builds versions, runs comparisons and tests, and keeps a log."""
