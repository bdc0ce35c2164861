"""Settings: what a run depends on, from the command line (Hydra), from Python, or from a file; checked before any work."""
