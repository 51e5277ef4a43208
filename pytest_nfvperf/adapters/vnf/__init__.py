"""VNFs that run as processes of their own."""
