"""A run on the workers of a Dask cluster: driver, workers, and the channel that tokens travel on."""
