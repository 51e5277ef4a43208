"""Network namespaces, links and sockets, by netlink (rtnetlink(7))."""
