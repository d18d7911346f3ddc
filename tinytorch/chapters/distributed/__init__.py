"""The page on several ranks: its studies, what it records of them, its figures, its explorer and its exercises.

Ranks import the modules that they run from here, so this file imports nothing.
"""
