"""Walks by laws of their own: one file each. Those that are tables are in `dtoken.graph.walks`."""
