#!/usr/bin/env python3
"""Opens trajectories of mswea-host with the inspector of mini-swe-agent, page by page.

    inspect_ours.py BIN                     run the scenarios, inspect, and compare with `inspected/`
    inspect_ours.py BIN --write [NAME...]   the same, and write the new pages to `inspected/`

Python 3.11 or later; mini-swe-agent is installed as for record.py. See README.md.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import given
import record

SEEN = given.HERE / "inspected"

# Scenarios of every wire, and of all kinds of messages.
NAMES = (
    "anthropic_format_errors", "anthropic_plain", "anthropic_several", "anthropic_text", "anthropic_thinking",
    "format_bad_json", "format_own_default", "limit_steps", "multimodal", "multimodal_text", "output_unicode",
    "responses_format_errors", "responses_multimodal", "responses_plain", "responses_reasoning", "responses_several",
    "run_timeout", "server_401", "text_plain", "toolcall_plain", "toolcall_reasoning", "toolcall_several",
)

# The keys of a message that the inspector reads; the test in Rust has the same list.
READ = ("role", "type", "content", "tool_calls", "output", "reasoning_content")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=Path, metavar="BIN", help="a mswea-host")
    parser.add_argument("names", nargs="*", metavar="NAME", help="scenarios; without: all of NAMES")
    parser.add_argument("--write", action="store_true", help="write the new pages to `inspected/`")
    parser.add_argument("--venv", type=Path, default=Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mswea-side-by-side")
    options = parser.parse_args()
    python = record.installed(options.venv) / "python"
    if Path(sys.prefix).resolve() != options.venv.resolve():
        # The inspector is a library of the virtual environment.
        sys.exit(subprocess.run([python, __file__, *sys.argv[1:]], check=False).returncode)
    failed = [name for name in options.names or NAMES if not one(name, options)]
    print(f"{len(options.names or NAMES)} trajectories inspected, {len(failed)} of them with mistakes")
    sys.exit(1 if failed else 0)


def one(name, options):
    """Runs a scenario and inspects its trajectory. Returns whether there was no mistake."""
    result = record.run([str(options.program.resolve())], given.expand(name), look)
    messages, pages = result["trajectory"]["messages"], result["seen"]["pages"]
    mistakes = result["seen"]["mistakes"]
    seen = {"by": record.PINNED[0], "reads": [read(message) for message in messages], "pages": pages}
    path = SEEN / f"{name}.json"
    if options.write:
        SEEN.mkdir(exist_ok=True)
        path.write_text(json.dumps(seen, indent=1) + "\n", "utf-8")
    elif json.loads(path.read_text("utf-8")) != seen:
        mistakes.append(f"the pages differ from `{path.relative_to(given.HERE)}`: check them, then --write")
    for mistake in mistakes:
        print(f"{name}: {mistake}")
    commands = sum(len(message.get("extra", {}).get("actions", [])) for message in messages)
    outputs = sum("raw_output" in message.get("extra", {}) for message in messages)
    print(f"{name}: {len(pages)} pages, {len(messages)} messages, {commands} commands, {outputs} observations")
    return not mistakes


def look(file):
    """Opens a trajectory's file with the inspector."""
    pages = asyncio.run(walk(file))
    return {"pages": pages, "mistakes": check(json.loads(file.read_text("utf-8")), pages)}


def read(message):
    """The values that the inspector reads of a message."""
    out = {key: message[key] for key in READ if key in message}
    out["acts"] = bool(message.get("extra", {}).get("actions"))
    return out


async def walk(file):
    """The content of each page: pairs of heading and text, as the widgets have them."""
    # The package prints a banner and looks for the user's config.
    os.environ |= {"MSWEA_SILENT_STARTUP": "1", "MSWEA_GLOBAL_CONFIG_DIR": str(file.parent / "mini")}
    from minisweagent.run.utilities.inspector import TrajectoryInspector
    from textual.widgets import Static

    app = TrajectoryInspector([file])
    pages = []
    async with app.run_test(size=(160, 60)) as pilot:
        while True:
            await pilot.pause()
            blocks = [(widget.classes, str(widget.content)) for widget in app.query("#content Static").results(Static)]
            page = []
            for classes, text in blocks:
                if "message-header" in classes or "reasoning-header" in classes:
                    page.append([text])
                else:
                    page[-1].append(text)
            pages.append(page)
            assert app.title.endswith(f"Step {len(pages)}/{app.n_steps}"), app.title
            # An error in the markup shows only when the page is drawn.
            assert app.export_screenshot().startswith("<svg")
            if len(pages) == app.n_steps:
                return pages
            await pilot.press("right")


def check(trajectory, pages):
    """Checks that every message is a block of its role with its commands and observations."""
    messages = trajectory["messages"]
    blocks = [block for page in pages for block in page if block[0] != "REASONING"]
    if len(blocks) != len(messages):
        return [f"{len(messages)} messages, {len(blocks)} blocks"]
    mistakes = []
    for number, (message, (heading, text)) in enumerate(zip(messages, blocks)):
        # A response of the Responses API has neither role nor type, also in mini-swe-agent's trajectories.
        wanted = (message.get("role") or message.get("type") or "unknown").upper()
        if heading != wanted:
            mistakes.append(f"message {number}: the heading `{heading}`, not `{wanted}`")
        extra = message.get("extra", {})
        parts = [action["command"] for action in extra.get("actions", [])]
        # Images are not shown, and their tags were removed from the text.
        parts += [piece for piece in extra.get("raw_output", "").split("\n") if "MULTIMODAL" not in piece]
        for part in parts:
            if part.strip() not in text and in_json(part) not in text:
                mistakes.append(f"message {number}: `{part}` is not shown in `{text}`")
        if not text.strip() and extra.get("raw_output") != "":
            mistakes.append(f"message {number}: an empty block")
    thoughts = [message["reasoning_content"] for message in messages if message.get("reasoning_content")]
    shown = [block[1] for page in pages for block in page if block[0] == "REASONING"]
    if thoughts != shown:
        mistakes.append(f"reasoning: {shown}, not {thoughts}")
    return mistakes


def in_json(text):
    """The text as the template filter `tojson` writes it, without the quotes."""
    text = json.dumps(text.strip())[1:-1]
    for letter in "<>&'":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


if __name__ == "__main__":
    main()
