"""The Huber loss: a regression that outliers do not pull.

phi(t) = (t - y)^2 / 2 where |t - y| <= 1, else |t - y| - 1/2. Scale the labels to move the point where it turns linear.
"""


class Huber:
    """Quadratic near the label, linear far from it."""

    curvature = 1.0
    classification = False

    @staticmethod
    def value(t: float, y: float) -> float:
        """phi(t)."""
        size = abs(t - y)
        return 0.5 * size * size if size <= 1.0 else size - 0.5

    @staticmethod
    def derivative(t: float, y: float) -> float:
        """phi'(t)."""
        return min(max(t - y, -1.0), 1.0)

    @staticmethod
    def second(t: float, y: float) -> float:
        """phi''(t), 0 at both kinks."""
        return 1.0 if abs(t - y) < 1.0 else 0.0
