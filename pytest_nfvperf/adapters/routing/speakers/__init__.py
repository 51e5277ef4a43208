"""What the speakers share: their daemons, their logs, waiting for a session; and the simulated speaker."""
