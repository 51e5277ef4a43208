"""What is sent, and what a trial counted."""
