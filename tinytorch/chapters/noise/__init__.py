"""The page on noise: its experiments, which fresh processes import, and the checks of its exercises."""
