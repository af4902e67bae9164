"""Removes from a result what differs from run to run, and compares two results.

The module `side_by_side` of the host's tests does the same in Rust: change a rule in both. The README
describes the rules.
"""

import json
import math
import re
from pathlib import Path

DIFFERENCES = Path(__file__).resolve().parent / "differences.json"

# The headers that carry meaning for a provider.
HEADERS = ("authorization", "x-api-key", "anthropic-version", "anthropic-beta", "content-type", "x-extra")

# Keys of a message that hold a time.
CLOCKS = ("timestamp", "created", "created_at")

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


def normal(result, places):
    """`result` with names in place of addresses, folders, times, ids and tracebacks."""
    result = dict(result)
    result["requests"] = [
        request | {"headers": {name: value for name, value in sorted(request["headers"].items()) if name in HEADERS}}
        for request in result["requests"]
    ]
    return walk(result, places, ())


def walk(value, places, path):
    if isinstance(value, dict):
        return {text(key, places): walk(child, places, (*path, key)) for key, child in value.items()}
    if isinstance(value, list):
        return [walk(child, places, (*path, index)) for index, child in enumerate(value)]
    in_message = path[:2] == ("trajectory", "messages")
    if in_message and path[-1] in CLOCKS and isinstance(value, (int, float)):
        return "@TIME@"
    if in_message and path[-1] == "traceback" and isinstance(value, str):
        return "@TRACEBACK@"
    return text(value, places) if isinstance(value, str) else value


def text(value, places):
    for place, name in places:
        value = value.replace(place, name)
    return UUID.sub("@UUID@", value)


def differences(wanted, got, path=()):
    """Every place where the two differ, as (path, wanted, got), with `MISSING` for a missing value."""
    if isinstance(wanted, dict) and isinstance(got, dict):
        for key in [*wanted, *(key for key in got if key not in wanted)]:
            yield from differences(wanted.get(key, MISSING), got.get(key, MISSING), (*path, key))
    elif isinstance(wanted, list) and isinstance(got, list):
        for index in range(max(len(wanted), len(got))):
            one = wanted[index] if index < len(wanted) else MISSING
            other = got[index] if index < len(got) else MISSING
            yield from differences(one, other, (*path, index))
    elif not same(wanted, got):
        yield path, wanted, got


class Missing:
    def __repr__(self):
        return "(nothing)"


MISSING = Missing()


def same(one, other):
    number = (int, float)
    if isinstance(one, number) and isinstance(other, number) and not isinstance(one, bool) and not isinstance(other, bool):
        # 3 equals 3.0, and numbers may differ by rounding, because costs may be added in another order.
        return one == other or math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)
    return type(one) is type(other) and one == other


def equal(one, other):
    return not list(differences(one, other))


def pointer(path):
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


class Allowed:
    """The intended differences, from the data file."""

    def __init__(self, path=DIFFERENCES):
        self.entries = json.loads(path.read_text("utf-8"))
        for entry in self.entries:
            if not entry.get("why") or set(entry) - {"scenario", "pointer", "only", "mini", "ours", "why"}:
                raise SystemExit(f"{path}: bad entry {entry}")
        self.used = [False] * len(self.entries)

    def finds(self, scenario, path, wanted, got):
        found = False
        for index, entry in enumerate(self.entries):
            if self.fits(entry, scenario, path, wanted, got):
                self.used[index] = found = True
        return found

    @staticmethod
    def fits(entry, scenario, path, wanted, got):
        wanted_name = entry.get("scenario", "*")
        if not (scenario.startswith(wanted_name[:-1]) if wanted_name.endswith("*") else scenario == wanted_name):
            return False
        only = entry.get("only")
        if only == "ours" and wanted is not MISSING or only == "mini" and got is not MISSING:
            return False
        if "mini" in entry and not equal(entry["mini"], wanted) or "ours" in entry and not equal(entry["ours"], got):
            return False
        return matches(entry["pointer"].split("/")[1:], [str(part).replace("~", "~0").replace("/", "~1") for part in path])

    def unused(self):
        return [entry for entry, used in zip(self.entries, self.used) if not used]


def matches(pattern, path):
    """Whether the pattern matches: `*` stands for one part, `**` at the end for any number of parts."""
    if pattern == ["**"]:
        return True
    if not pattern or not path:
        return not pattern and not path
    return pattern[0] in ("*", path[0]) and matches(pattern[1:], path[1:])
