"""Mending of pages' cells: what ruff can mend is mended in its place, and nothing else of the page changes."""

from scripts.format_pages import mended

PAGE = """# Title

```{code-cell} python3
:tags: [remove-cell]
import sys
import json

print(json.dumps(sys.path))
```

- A list
  ```{code-cell} python3
  import sys
  import json
  ```

Prose:  with `import sys`.

```{code-cell} python3
%matplotlib inline
import re, os
```
"""


def test_cells_are_mended_and_prose_and_magic_commands_stay() -> None:
    page = PAGE.replace("import sys\nimport json\n\nprint", "import json\nimport sys\n\nprint")
    assert mended(PAGE) == mended(page) == page
