"""Sweeps: many runs, found again on disk and put into one table."""
