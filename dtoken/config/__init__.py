"""Settings: what a run depends on, from the command line (Hydra) or from Python, checked before any work."""
