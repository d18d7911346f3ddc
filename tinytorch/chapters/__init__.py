"""Chapters: studies and records of pages, a module or a folder for each, and the checks of their exercises."""
