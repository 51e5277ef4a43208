"""BGP: speakers, the route agent, and convergence on a measured path."""
