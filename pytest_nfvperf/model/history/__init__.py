"""Many runs of the same tests: series of figures, and the changes in them."""
