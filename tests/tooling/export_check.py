"""Reads exports with parsers of others: HTML with html5lib, Markdown with markdown-it, lines of JSON with json.

    export_check.py run.html run.md run.jsonl

Prints what is wrong. HTML must be without a parse error; neither it nor Markdown may have a script or load anything.
"""

import json
import sys
from pathlib import Path

import html5lib
from markdown_it import MarkdownIt

LOADS = {"script", "iframe", "object", "embed", "link", "base", "form", "audio", "video", "source"}


def html(text):
    parser = html5lib.HTMLParser(namespaceHTMLElements=False)
    tree = parser.parse(text)
    for place, error, _ in parser.errors:
        yield f"{place}: {error}"
    for element in tree.iter():
        # Comments have a function in the place of a name.
        if element.tag in LOADS:
            yield f"<{element.tag}>"
        for name, value in element.attrib.items():
            if name.startswith("on") or name in ("src", "href") and not value.startswith(("data:image/", "#")):
                yield f"<{element.tag} {name}={value!r}>"


def markdown(text):
    tokens = MarkdownIt("commonmark").parse(text)
    headings = 0
    for token in tokens:
        headings += token.type == "heading_open" and token.tag == "h2"
        for part in [token, *(token.children or [])]:
            if part.type in ("html_block", "html_inline", "image"):
                yield f"{part.type}: {part.content}"
    if headings != sum(line.startswith("## ") for line in text.splitlines()):
        yield "a heading is inside of something else"


def lines(text):
    for line in text.splitlines():
        json.loads(line)
    return []


READERS = {".html": html, ".md": markdown, ".jsonl": lines}
problems = [
    f"{name}: {problem}"
    for name in map(Path, sys.argv[1:])
    for problem in READERS[name.suffix](name.read_bytes().decode())
]
sys.exit("\n".join(problems) or 0)
