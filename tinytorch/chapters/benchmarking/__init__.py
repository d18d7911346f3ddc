"""The page on benchmarking: its experiments, which fresh processes import, and what the page records of them."""
