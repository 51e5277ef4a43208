"""A private OVN: its databases, northd and a controller on a private OVS; and ovn-bgp-agent beside it."""
