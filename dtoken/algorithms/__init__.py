"""Token methods, one file each."""

from dtoken.algorithms.registry import METHODS, method_class

__all__ = ["METHODS", "method_class"]
