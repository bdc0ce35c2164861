"""How the documentation says that dtoken is installed."""

import re

from tests.conftest import ROOT


def test_nobody_is_sent_to_an_index_that_does_not_have_it() -> None:
    for page in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")):
        assert not re.search(r"pip install [\"']?dtoken", page.read_text()), page
