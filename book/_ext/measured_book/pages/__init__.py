"""Directives of single pages: exercises, reference, glossary, lists, sources and the front page."""
