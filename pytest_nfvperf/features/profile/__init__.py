"""Where CPU time goes: --nfv-profile-cpu."""
