"""Where the frames of a trial were lost, and what became of their copies."""
