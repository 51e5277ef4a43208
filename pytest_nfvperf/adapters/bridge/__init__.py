"""The Linux bridge as a datapath: the reference that is not Open vSwitch."""
