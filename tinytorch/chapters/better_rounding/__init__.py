"""The page on better rounding: other levels, moved scales, formats of few bits, and keys and values."""
