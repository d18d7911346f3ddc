"""What records say on a page: numbers, verdicts, claims, predictions, and the card."""
