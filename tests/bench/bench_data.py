"""Where the real data are, for the tests that want them."""

from __future__ import annotations

import pytest
from support import ROOT

DATA = ROOT.parent / "shared" / "data"
needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="the data folder is not there")
