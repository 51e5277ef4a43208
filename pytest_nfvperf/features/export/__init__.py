"""Figures of runs for other tools: nfvperf export."""
