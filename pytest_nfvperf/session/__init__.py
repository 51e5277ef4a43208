"""What one run knows and owns: its rig, its SLAs, its evidence, and the topologies it deploys."""
