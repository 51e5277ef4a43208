"""The agent that turns routes in the kernel into flows of a bridge, and the clock of its steps."""
