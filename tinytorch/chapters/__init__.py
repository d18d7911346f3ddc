"""What the pages of the book study and record, one module a page: all that a page shows and its text does not say."""
