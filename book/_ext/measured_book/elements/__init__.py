"""Nodes that pages are made of: numbers, tables, figures, drawings, folds, and how they are numbered."""
