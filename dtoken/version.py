"""The version of dtoken: a leaf, so that whoever needs it imports nothing else."""

__version__ = "0.1.0"
