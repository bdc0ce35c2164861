"""Tests need no mkdocs, and what extends it cannot be imported without it."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("griffe") else ["griffe_parameters.py"]
