"""A lab without hardware: a guest with emulated PCI NICs, cabled to one another."""
