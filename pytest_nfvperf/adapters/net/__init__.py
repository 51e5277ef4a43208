"""Network namespaces, links and sockets, by netlink (rtnetlink(7)), and the Linux bridge as a datapath."""
