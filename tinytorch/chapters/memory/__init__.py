"""The page on memory: its studies, the checks of its exercises, and its code for PyTorch."""
