"""Where CPU cycles go, by perf."""
