# Restarts and upgrades
from .measure.events import restart as restart
from .measure.events import kill as kill
from .measure.events import upgrade as upgrade
from .measure.events import restart_database as restart_database
from .measure.events import reconnect as reconnect
from .measure.events import lose_controller as lose_controller

# Changes
from .measure.change_events import add_flows as add_flows
from .measure.change_events import add_port as add_port
from .measure.change_events import change_pmd_cpus as change_pmd_cpus
from .measure.change_events import change_rule as change_rule
from .measure.change_events import cut_tunnel as cut_tunnel
from .measure.change_events import link_down as link_down
from .measure.change_events import move_rxqs as move_rxqs
from .measure.change_events import rebalance_rxqs as rebalance_rxqs
from .measure.change_events import replace_flows as replace_flows

# OVN
from .features.ovn.path import change_northbound as change_northbound
from .features.ovn.path import restart_ovn_controller as restart_ovn_controller
