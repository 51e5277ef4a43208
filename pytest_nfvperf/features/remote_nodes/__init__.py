"""OVS nodes on other machines, over ssh."""
