"""A private Open vSwitch, or the system's, as the datapath under test."""
