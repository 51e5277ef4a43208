"""Starts ovn-bgp-agent as root, under the Python of the agent's environment.

Normally sudo starts each of its three privileged helpers as a new Python, which imports all of OpenStack's libraries.
Here oslo.privsep forks them (Method.FORK). This saves a second, and most of a minute in an emulated guest.
"""

from __future__ import annotations

import ovn_bgp_agent.drivers.openstack.nb_ovn_bgp_driver  # noqa: F401 - import it before the helpers are forked
from oslo_privsep.priv_context import Method
from ovn_bgp_agent import agent, privileged


def main() -> None:
    for helper in (privileged.default, privileged.ovs_vsctl_cmd, privileged.vtysh_cmd):
        helper.start(Method.FORK)
    agent.start()


if __name__ == "__main__":
    main()
