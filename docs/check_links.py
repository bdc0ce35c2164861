"""Check that every relative link of the documentation leads to a file, and to a heading if it names one.

What the pages on the design call a file has to be one, too: a path from the root or inside dtoken, or the name of any.
"""

import re
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)
FILE = re.compile(r"`([\w./-]+\.(?:py|js|css|md|yaml|html)|[\w./-]+/)`")
CODE = re.compile(r"^ *```.*?^ *```|`[^`\n]*`", re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """The names under which the headings of ``page`` can be linked, as code hosts make them."""
    headings = HEADING.findall(re.sub(r"^ *```.*?^ *```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def dead_links(page: Path) -> list[str]:
    """One sentence for each link of ``page`` that leads nowhere."""
    faults = []
    for link in LINK.findall(CODE.sub("", page.read_text())):
        if re.match(r"[a-z]+:", link):  # to other sites: not ours to check
            continue
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        if not target.exists():
            faults.append(f"{page.relative_to(ROOT)}: {link} does not exist")
        elif anchor and anchor not in anchors(target):
            faults.append(f"{page.relative_to(ROOT)}: {link} names no heading")
    return faults


def lost_files(page: Path) -> list[str]:
    """One sentence for each file or folder that ``page`` names and that is not there; NAME stands for any."""
    faults = []
    for name in FILE.findall(page.read_text()):
        known = any((folder / name).exists() for folder in (ROOT, ROOT / "dtoken"))
        if not (known or "NAME" in name or ("/" not in name and name in names())):
            faults.append(f"{page.relative_to(ROOT)}: there is no {name}")
    return faults


@cache
def names() -> set[str]:
    """The names of all files of the packages and their tests."""
    folders = ("dtoken", "hydra_dask", "hydra_plugins", "tests")
    return {path.name for folder in folders for path in (ROOT / folder).rglob("*.*")}


def main() -> int:
    """Check all pages; the exit status says whether all is well."""
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    faults = [fault for page in pages for fault in dead_links(page)]
    faults += [fault for page in (ROOT / "docs/design").glob("*.md") for fault in lost_files(page)]
    print("\n".join(faults) or f"{len(pages)} pages, no dead links")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
