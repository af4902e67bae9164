#!/usr/bin/env python3
"""Makes a site of the pages of this repository, in the order of docs/SUMMARY.md.

    docs/site.py FOLDER

The pages stay beside the code; mdBook wants them in one folder with nothing else, so they are copied there.
Links to what is no page become text. At the end every link of the site is checked. FOLDER is new, empty, or an
earlier site, because mdBook removes what is in it. Needs `mdbook` (`cargo install mdbook`, or the program that MDBOOK
names).
"""

import os
import re
import subprocess
import sys
import tempfile
from html.parser import HTMLParser
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
# The file that says that a folder is a site.
SITE = ".mswea-site"
BOOK = """\
[book]
title = "mswea-host"
language = "en"
src = "pages"
[output.html]
default-theme = "light"
preferred-dark-theme = "navy"
smart-punctuation = false
[output.html.print]
enable = false
"""


def placed(page):
    """Where a page is in the site: that of a folder is its index."""
    return re.sub(r"(^|/)README\.md$", r"\1index.md", page)


def relinked(page, text, pages):
    """The text of a page with links that hold in the site."""

    def link(found):
        words, target = found.groups()
        if urlsplit(target).scheme or target.startswith("#"):
            return found[0]
        path, _, anchor = target.partition("#")
        path = normpath(str(PurePosixPath(page).parent / path))
        path = next((it for it in (path, normpath(f"{path}/README.md")) if it in pages), None)
        if path is None:
            return words
        path = relpath(placed(path), str(PurePosixPath(placed(page)).parent))
        return f"[{words}]({path}{'#' + anchor if anchor else ''})"

    # Code is left as it is: fenced blocks are every second part.
    parts = re.split(r"(^[ ]*```.*?^[ ]*```[ ]*$)", text, flags=re.M | re.S)
    return "".join(part if index % 2 else LINK.sub(link, part) for index, part in enumerate(parts))


class Page(HTMLParser):
    """The links and the anchors of a page."""

    def __init__(self, path):
        super().__init__()
        self.links, self.anchors = [], set()
        self.feed(path.read_text())

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.anchors.update(attrs[key] for key in ("id", "name") if attrs.get(key))
        self.links.extend(attrs[key] for key in ("href", "src") if attrs.get(key))


def broken(folder):
    """The links of the site that lead nowhere."""
    pages = {path: Page(path) for path in folder.rglob("*.html") if path.name not in ("404.html", "toc.html")}
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = Path(normpath(path.parent / unquote(parts.path))) if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            anchor = unquote(parts.fragment)
            if not target.exists() or anchor and target in pages and anchor not in pages[target].anchors:
                yield f"{path.relative_to(folder)}: {link}"


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    folder = Path(sys.argv[1]).resolve()
    if folder.exists() and not (folder / SITE).exists() and any(folder.iterdir()):
        sys.exit(f"site.py: `{folder}` is not empty and no earlier site: name a new folder")
    summary = (ROOT / "docs/SUMMARY.md").read_text()
    pages = {normpath("docs/" + target) for _, target in LINK.findall(summary)}
    with tempfile.TemporaryDirectory() as work:
        source = Path(work) / "pages"
        for page in pages:
            path = source / placed(page)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(relinked(page, (ROOT / page).read_text(), pages))
        listed = LINK.sub(lambda it: f"[{it[1]}]({placed(normpath('docs/' + it[2]))})", summary)
        (source / "SUMMARY.md").write_text(listed)
        (Path(work) / "book.toml").write_text(BOOK)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / SITE).touch()
        program = os.environ.get("MDBOOK", "mdbook")
        try:
            subprocess.run([program, "build", work, "--dest-dir", folder], check=True)
        except FileNotFoundError:
            sys.exit(f"site.py: there is no `{program}`: `cargo install mdbook`, or name one with MDBOOK")
        except subprocess.CalledProcessError as error:
            sys.exit(f"site.py: `{program}` failed with status {error.returncode}")
    (folder / SITE).touch()
    nowhere = list(broken(folder))
    if nowhere:
        sys.exit("site.py: these links lead nowhere:\n" + "\n".join(nowhere))
    print(f"{len(pages)} pages: {folder}/index.html")


if __name__ == "__main__":
    main()
