"""What a noisy machine did to a trial: whether it is valid, which windows count, and whose loss it was."""
