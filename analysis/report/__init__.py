"""The report: one self-contained folder about a survey, good enough to send to a colleague."""

from analysis.report.write import Report, write_report

__all__ = ["Report", "write_report"]
