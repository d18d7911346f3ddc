"""Files of the book as they are written: names, MyST, references, the repository."""
