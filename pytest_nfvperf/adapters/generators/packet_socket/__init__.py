"""A generator on packet sockets, for a guest that counts instructions."""
