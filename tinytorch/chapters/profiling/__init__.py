"""The page on profiling: its studies, its records and the checks of its exercises."""
