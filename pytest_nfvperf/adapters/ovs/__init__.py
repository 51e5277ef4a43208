"""A private or given Open vSwitch as the datapath under test."""
