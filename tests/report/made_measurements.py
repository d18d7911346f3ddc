"""Made numbers whose intervals are given, and a small file of measurements with a record of every kind."""

from tests.perf.made_ceilings import made_ceilings
from tinytorch.chapters.your_machine import roof_rows
from tinytorch.perf.measuring import Unmeasured
from tinytorch.perf.measuring.conditions import Conditions
from tinytorch.perf.measuring.measurement import Measurement
from tinytorch.perf.measuring.statistics import Stated
from tinytorch.report.measurements import document, page_entry
from tinytorch.report.page import Page
from tinytorch.report.records import Json, page_file


def bounded(
    value: float,
    low: float,
    high: float,
    unit: str = "",
    *,
    name: str = "a run",
    n: int = 6,
    conditions: Conditions | None = None,
) -> Measurement:
    """Return a median of ``n`` samples with the interval from ``low`` to ``high``."""
    told = (conditions or Conditions()).told_as("median")
    return Measurement(name, (value,) * n, unit, told, law=Stated(value, low, high))


def made_page(name: str = "your_machine") -> Json:
    """Return a page's file of records."""
    page = Page(name)
    page.number("latency", bounded(1e-3, 0.9e-3, 1.1e-3, "s", name="made"))
    page.number("parameters", 12345, unit="parameters", what="weights")
    page.fill({"bound": "memory-bound"}, "bound")
    page.number("other", Unmeasured("The engine is not here."))
    page.test("slow", bounded(1e-3, 0.9e-3, 1.1e-3, "s", name="made"), above=1)
    made = [made_ceilings(noise=0.05, threads=threads) for threads in (1, 2)]
    headings = {"roof": "Roof", "threads": "Threads", "of": "Of", "rate": "At most", "holds": "Holds, as reported"}
    page.table("roofs", roof_rows(made), headings, caption="Roofs")
    made_file = page_file(name, page.records, duration_seconds=3.5)
    words = {"statement": "Slow.", "source": "Folklore", "source_url": None, "quote": "Slow.", "evidence": "It is."}
    made_file["records"] = [one | words if one["kind"] == "claim" else one for one in made_file["records"]]
    return made_file


def made_measurements(label: str = "A machine") -> Json:
    """Return a file of measurements with that page."""
    return document(label, [page_entry(made_page())], note="shared")
