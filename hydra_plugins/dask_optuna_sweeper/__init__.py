"""A Hydra sweeper: Optuna thinks of a job whenever a worker of a Dask cluster has none; for any Hydra application."""
