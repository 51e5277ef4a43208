"""Starts ovn-bgp-agent where one is root already. Run by the Python of the agent's own environment.

The agent has three helpers with privileges of their own. By itself it has sudo start each as a new Python, which
imports all of OpenStack's libraries again. Here oslo.privsep forks them (Method.FORK, for processes that have the
privileges): a second less, and most of a minute in an emulated guest. Else the agent is as it is installed.
"""

from __future__ import annotations

import ovn_bgp_agent.drivers.openstack.nb_ovn_bgp_driver  # noqa: F401 - helpers have it, too, if it is there before
from oslo_privsep.priv_context import Method
from ovn_bgp_agent import agent, privileged


def main() -> None:
    """Run until a signal ends it."""
    for helper in (privileged.default, privileged.ovs_vsctl_cmd, privileged.vtysh_cmd):
        helper.start(Method.FORK)
    agent.start()


if __name__ == "__main__":
    main()
