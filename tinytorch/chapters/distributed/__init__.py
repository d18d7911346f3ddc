"""Studies and exercises of the page on several ranks. Ranks import from here, so this file imports nothing."""
