# Restarts and upgrades
