"""The report of a sweep: aggregation over seeds, figures, the HTML page."""

from dtoken.report.make import make_report

__all__ = ["make_report"]
