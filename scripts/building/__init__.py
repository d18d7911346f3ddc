"""How the book is built: one build at a time, what it runs in, what it tells, and what is left after a failure."""
