"""Messages between ranks: timed over sizes, fitted as alpha + beta x bytes, and a ring to learn from."""
