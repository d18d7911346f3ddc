"""Lets ``python -m tinytorch`` be the command line."""

import sys

from tinytorch.cli import main

if __name__ == "__main__":
    sys.exit(main())
