"""The code of the documentation is run: by mkdocs when the site is built, and by the tests.

The Python blocks of a page share one namespace, in a folder of their own, as a reader's session
would. What a page takes for granted is in a comment of the page that readers do not see:

    <!-- before:
    past = ...
    -->

Commands of the shell are run when the site is built, in the same folder, where a comment says so:

    <!-- run -->
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

BLOCK = re.compile(
    r"^```python\n(.*?)^```|^<!-- before:\n(.*?)^-->|^<!-- run -->\n+```bash\n(.*?)^```",
    re.DOTALL | re.MULTILINE,
)


def blocks(text: str, *, shell: bool = False) -> list[str]:
    """The code of a page, in order, with as many empty lines before as put it on its line.

    Args:
        text: of the page.
        shell: with the commands of the shell, as calls of `command`.
    """
    found = []
    for match in BLOCK.finditer(text):
        group = next(k for k in (1, 2, 3) if match[k] is not None)
        code = f"command({match[3]!r})" if group == 3 else match[group]
        if shell or group != 3:
            found.append("\n" * text.count("\n", 0, match.start(group)) + code)
    return found


def command(text: str) -> None:
    """Run commands of the shell with the programs of this environment; an error is raised."""
    environment = {k: v for k, v in os.environ.items() if k != "RANKWISE_ARCHIVE"}
    environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(["bash", "-ec", text], env=environment, capture_output=True, text=True)
    if done.returncode:
        print(done.stdout, done.stderr, sep="\n", file=sys.stderr)
        done.check_returncode()


def run(
    text: str, name: str, folder: str | Path, *, shell: bool = False
) -> tuple[dict[str, Any], str]:
    """What a page's code defines, and what it prints.

    Args:
        text: of the page.
        name: of the page, for errors.
        folder: to run in.
        shell: run commands of the shell, too.
    """
    session: dict[str, Any] = {"__name__": "__main__", "command": command}
    shown, before = io.StringIO(), Path.cwd()
    os.chdir(folder)
    try:
        with contextlib.redirect_stdout(shown), warnings.catch_warnings():
            for code in blocks(text, shell=shell):
                exec(compile(code, name, "exec"), session)
    finally:
        os.chdir(before)
    return session, shown.getvalue()


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Run a page while the site is built; a hook of mkdocs. An error ends the build."""
    with tempfile.TemporaryDirectory() as folder:
        run(markdown, page.file.src_path, folder, shell=True)
    return markdown
