"""Check that every relative link of the documentation leads to a file, and to a heading if it names one."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)
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


def main() -> int:
    """Check all pages; the exit status says whether all is well."""
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    faults = [fault for page in pages for fault in dead_links(page)]
    print("\n".join(faults) or f"{len(pages)} pages, no dead links")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
