# Restarts and upgrades
from .measure.events import restart as restart
from .measure.events import kill as kill
from .measure.events import upgrade as upgrade
from .measure.events import restart_database as restart_database
from .measure.events import reconnect as reconnect
from .measure.events import lose_controller as lose_controller
