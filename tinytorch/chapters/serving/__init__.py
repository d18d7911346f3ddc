"""The page on serving: its experiments, a simulated server, and the checks of its exercises."""
