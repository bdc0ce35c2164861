"""Poisson regression of counts y >= 0 with the rate exp(t): phi(t) = exp(t) - y t, up to a constant of y.

Its second derivative exp(t) has no bound, and every method here needs one: step sizes, sampling and rates are made from
it. So phi is the Poisson loss up to t = 3, rates of 20, and beyond that its Taylor polynomial of second degree: still
convex, twice differentiable, and phi'' <= exp(3). Where no fitted rate is larger, the optimum is that of Poisson
regression itself; else a run says so. For larger rates copy this file and raise LIMIT; smoothness grows as exp(LIMIT).
"""

import math

LIMIT = 3.0


class Poisson:
    """Counts with a logarithmic link, continued quadratically above a rate of exp(3) = 20."""

    curvature = math.exp(LIMIT)
    classification = False
    least_label = 0.0
    limit = LIMIT

    @staticmethod
    def value(t: float, y: float) -> float:
        """phi(t)."""
        beyond = max(t - LIMIT, 0.0)
        return math.exp(min(t, LIMIT)) * (1.0 + beyond + 0.5 * beyond * beyond) - y * t

    @staticmethod
    def derivative(t: float, y: float) -> float:
        """phi'(t)."""
        return math.exp(min(t, LIMIT)) * (1.0 + max(t - LIMIT, 0.0)) - y

    @staticmethod
    def second(t: float, y: float) -> float:
        """phi''(t)."""
        return math.exp(min(t, LIMIT))
