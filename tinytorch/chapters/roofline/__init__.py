"""The page on rooflines: its records and the checks of its exercises."""
