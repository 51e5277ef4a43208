"""BGP speakers and logical networks as data."""
