"""The page on memoization: its studies, its records and the checks of its exercises."""
