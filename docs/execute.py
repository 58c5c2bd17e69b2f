"""The code of the documentation is run: by mkdocs when the site is built, and by the tests.

The Python blocks of a page share one namespace, in a folder of their own, as a reader's session
would. What a page takes for granted is in a comment of the page that readers do not see:

    <!-- before:
    past = ...
    -->
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import tempfile
import warnings
from pathlib import Path
from typing import Any

BLOCK = re.compile(r"^```python\n(.*?)^```|^<!-- before:\n(.*?)^-->", re.DOTALL | re.MULTILINE)


def blocks(text: str) -> list[str]:
    """The code of a page, in order, with as many empty lines before as put it on its line."""
    found = []
    for match in BLOCK.finditer(text):
        code = match[1] or match[2] or ""
        line = text.count("\n", 0, match.start(1 if match[1] else 2))
        found.append("\n" * line + code)
    return found


def run(text: str, name: str, folder: str | Path) -> tuple[dict[str, Any], str]:
    """What a page's code defines, and what it prints.

    Args:
        text: of the page.
        name: of the page, for errors.
        folder: to run in.
    """
    session: dict[str, Any] = {"__name__": "__main__"}
    shown, before = io.StringIO(), Path.cwd()
    os.chdir(folder)
    try:
        with contextlib.redirect_stdout(shown), warnings.catch_warnings():
            for code in blocks(text):
                exec(compile(code, name, "exec"), session)
    finally:
        os.chdir(before)
    return session, shown.getvalue()


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Run a page while the site is built; a hook of mkdocs. An error ends the build."""
    with tempfile.TemporaryDirectory() as folder:
        run(markdown, page.file.src_path, folder)
    return markdown
