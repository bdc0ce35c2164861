"""A Hydra launcher that runs the jobs of a multirun on a Dask cluster; for any Hydra application."""
