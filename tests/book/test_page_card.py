"""The card that ends a page: what it says of noise."""

from __future__ import annotations

import re

import pytest
from jsonschema import Draft202012Validator
from page_card import card_text
from record_store import PageRecords

from tests.perf.made_blas import load
from tinytorch.perf.measuring import Measurement
from tinytorch.perf.measuring.statistics import Interval
from tinytorch.perf.quantization import PairedAccuracy
from tinytorch.perf.quantization.tradeoff import accuracy_change
from tinytorch.report import Page
from tinytorch.report.records import page_file, schema


def test_a_difference_that_may_be_nothing_is_no_noise_of_the_times() -> None:
    page = Page("page")
    page.number("latency", Measurement("a run", (0.5, 0.6, 0.8, 1.0, 1.2, 1.4, 1.5), "s"))
    lost = PairedAccuracy(2000, 0.99, 0.9905, 1, 2, Interval(-0.002, 0.003, 0.95), 1.0)
    page.number("change", accuracy_change(lost, "share right"))
    said = card_text(PageRecords("page", {record.key: record.to_json() for record in page.records}, 1.5))
    # The latency and the noise floor that every page begins with.
    assert re.search(r"half-widths of 2 intervals: .* in the median, .* at worst \(latency\)", said), said


def test_threads_that_a_blas_does_not_tell_are_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    load(monkeypatch, framework=object())
    page = Page("page")
    Draft202012Validator(schema()).validate(page_file("page", page.records))
    records = {record.key: record.to_json() for record in page.records}
    assert "BLAS: accelerate, threads not known" in card_text(PageRecords("page", records, 1.5)).splitlines()
