"""Speed, measured side by side in one run; not part of the tests."""
