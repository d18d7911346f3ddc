"""Products of float32 rows with packed codes, which become floats in registers."""
