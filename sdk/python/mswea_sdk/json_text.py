"""JSON at the boundary: what may come in, and what must not go out.

The contract's JSON is RFC 8259, and strings cross as UTF-8. Python's `json` is laxer: it writes
`NaN`, reads escapes of half characters that no UTF-8 can hold, and a deep text ends the component,
since the recursion of its C code is not counted.
"""

import json
from typing import Any

#: Deeper texts are refused. The host itself goes no deeper than 128.
MAX_DEPTH = 200


def parse_json(text: str) -> Any:
    """Reads JSON from an untrusted place. Raises `ValueError` if it is none, or too deep."""
    check_depth(text)
    return json.loads(text)


def dump_json(value: Any) -> str:
    """Writes JSON that the contract takes. Raises `ValueError` or `TypeError` if there is none."""
    return clean(json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")))


def clean(text: str) -> str:
    """The text with U+FFFD in place of half characters (lone surrogates), which are no UTF-8."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def check_depth(text: str) -> None:
    """Raises `ValueError` if the text is nested deeper than `MAX_DEPTH`."""
    # Nearly every text has fewer brackets than that, and counting them costs next to nothing.
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return
    depth = place = 0
    end = len(text)
    while place < end:
        char = text[place]
        if char == '"':
            place = _end_of_string(text, place + 1)
        elif char in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise json.JSONDecodeError(f"nested deeper than {MAX_DEPTH}", text, place)
        elif char in "]}":
            depth -= 1
        place += 1


def _end_of_string(text: str, place: int) -> int:
    """Where the string that begins before `place` ends: its quote, or the end of the text."""
    while True:
        quote = text.find('"', place)
        if quote < 0:
            return len(text)
        backslashes = quote
        while backslashes > place and text[backslashes - 1] == "\\":
            backslashes -= 1
        if (quote - backslashes) % 2 == 0:
            return quote
        place = quote + 1
