"""Larger machines: what a step would take there, by closed forms, and how far these are from what runs here."""
