"""The page on compression: speed and bytes of fewer numbers, and what they cost in accuracy."""
