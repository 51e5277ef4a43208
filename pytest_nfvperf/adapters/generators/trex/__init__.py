"""Cisco TRex (STL) behind the Generator port. docs/trex.md says what is measured, and how."""
