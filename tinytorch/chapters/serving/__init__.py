"""The page on serving: its studies, a server that is simulated, and the checks of its exercises."""
