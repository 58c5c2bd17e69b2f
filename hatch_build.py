"""Build hook: puts plotly.js into the package, so that reports need no other package."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SCRIPT = "src/rankwise/_core/plotly.min.js.gz"


class PlotlyScript(BuildHookInterface):
    """Takes the script from the package plotly (MIT licence), which is needed to build only."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        path = Path(self.root, SCRIPT)
        if not path.exists():  # it exists in an sdist
            from plotly.offline import get_plotlyjs

            path.write_bytes(gzip.compress(get_plotlyjs().encode("utf-8"), mtime=0))
        build_data["artifacts"].append(f"/{SCRIPT}")
