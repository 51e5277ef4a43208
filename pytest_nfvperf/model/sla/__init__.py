"""SLA rules, and how they are judged."""
