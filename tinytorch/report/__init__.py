"""How a measurement reaches a page: records, numbers, tables, figures, claims and where they were made."""

from tinytorch.report.page import Page

__all__ = ["Page"]
