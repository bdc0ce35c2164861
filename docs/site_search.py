"""A hook of mkdocs: the search of the site works from the disk, where browsers let no page fetch an index."""

import json
from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).with_name("search.js")


def on_post_build(config: Any, **_: Any) -> None:
    """Turn the index of the search plugin into a script, and put our script in the place of the one that fetches it."""
    folder = Path(config["site_dir"]) / "search"
    index = folder / "search_index.json"
    pages = json.loads(index.read_text(encoding="utf-8"))["docs"]
    (folder / "pages.js").write_text(f"const pages = {json.dumps(pages)};\n", encoding="utf-8")
    (folder / "main.js").write_text(SCRIPT.read_text(encoding="utf-8"), encoding="utf-8")
    index.unlink()
    (folder / "worker.js").unlink()
