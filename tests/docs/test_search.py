"""The search of the documentation's site, opened from the disk."""

from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.report.conftest import MILLISECONDS, browser

__all__ = ["browser"]  # a fixture


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small site with the theme, the search and the hook of the documentation."""
    build = pytest.importorskip("mkdocs.commands.build")
    config = pytest.importorskip("mkdocs.config")
    folder = tmp_path_factory.mktemp("site")
    pages = folder / "docs"
    pages.mkdir()
    (pages / "index.md").write_text("# Start\n\nNothing here.\n")
    (pages / "tokens.md").write_text("# Tokens\n\n## Jumps\n\nA token goes to a node along an edge of the graph.\n")
    own = {"docs_dir": str(pages), "nav": ["index.md", "tokens.md"], "plugins": ["search"], "extra_css": []}
    build.build(config.load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder / "out"), **own))
    return folder / "out"


def test_it_finds_words_from_the_disk(site: Path, browser: Any) -> None:
    context = browser.new_context(offline=True)
    context.set_default_timeout(MILLISECONDS)
    page = context.new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto((site / "index.html").as_uri())
    page.fill("#rtd-search-form input", "edges")  # another form of the word, as lunr's stemmer knows it
    page.press("#rtd-search-form input", "Enter")
    page.wait_for_selector("#mkdocs-search-results article")
    assert page.locator("#mkdocs-search-results a").all_inner_texts() == ["Jumps", "Tokens"]
    page.fill("#mkdocs-search-query", "grap")  # the beginning of a word
    assert page.locator("#mkdocs-search-results article").count() == 2
    page.fill("#mkdocs-search-query", "algorithm.jumps: no:such")  # nothing that a query language would mind
    page.fill("#mkdocs-search-query", "zebra")
    assert page.inner_text("#mkdocs-search-results") == "No results found"
    page.fill("#mkdocs-search-query", "jumps")
    page.locator("#mkdocs-search-results a").first.click()
    page.wait_for_url("**/tokens.html#jumps")
    assert complaints == []
    context.close()
