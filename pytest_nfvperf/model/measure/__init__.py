"""What measurements end with: outcomes, samples, soaks, streams; and the figures read off them."""
