"""FRR as a BGP speaker."""
