"""Out-of-core experiments with token algorithms for decentralised optimisation.

The methods and their theory are those of H. Hendrikx, *A principled framework for the design and analysis of
token algorithms* (2022).
"""

__version__ = "0.1.0"
