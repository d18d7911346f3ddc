"""How long tests wait for what always comes, so that a fault ends a test instead of holding it for ever."""

#: Seconds. What is waited for takes two at most; a hundred times that is more than any slow and busy machine needs.
PATIENCE = 600
