"""OVN over a private OVS, and ovn-bgp-agent."""
