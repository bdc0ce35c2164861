"""Sweeps of any Hydra application on a Dask cluster: clusters, jobs, and the manifest of a sweep."""
