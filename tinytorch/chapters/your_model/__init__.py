"""The page on a reader's own model: from a file of another framework to a verdict, and what to do about it."""
