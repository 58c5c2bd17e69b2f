"""The script plotly.js, which pages contain so that they work offline."""

from __future__ import annotations

import base64
import gzip
from functools import lru_cache
from importlib.resources import files

from rankwise._core.extras import missing

FILE = "plotly.min.js.gz"
"""Name of the script in this folder. Building the package puts it there (`hatch_build.py`)."""


_LOADER = """"use strict";
// Plotly.js is packed, which makes the page less than half as large.
var plotlyReady = (function () {
  const packed = Uint8Array.from(atob("%s"), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text().then(function (text) { (0, eval)(text); });
})();
"""


@lru_cache(maxsize=1)
def plotly_script() -> str:
    """A script that unpacks and runs plotly.js; then its promise `plotlyReady` is fulfilled.

    Plotly.js is the one in this package, else that of the package plotly.

    Raises:
        MissingPackageError: there is neither.
    """
    return _LOADER % base64.b64encode(_packed()).decode()


def _packed() -> bytes:
    packed = files("rankwise._core").joinpath(FILE)
    if packed.is_file():
        return packed.read_bytes()
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise missing("an HTML page with figures", "plotly", "plot") from error
    return gzip.compress(get_plotlyjs().encode("utf-8"), mtime=0)
