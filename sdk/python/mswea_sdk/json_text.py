"""JSON from and for the host.

The contract's JSON is RFC 8259, and strings are passed as UTF-8. Python's `json` differs: it writes
`NaN`, and reads escapes of lone surrogates, which UTF-8 can't encode. A deep text ends the
component, since its C code does not limit the recursion.
"""

import json
from typing import Any

#: Deeper texts are refused. The host itself accepts a depth of 128.
MAX_DEPTH = 200


def parse_json(text: str) -> Any:
    """Parses JSON from an untrusted source. Raises `ValueError` if it is invalid or too deep."""
    check_depth(text)
    return json.loads(text)


def dump_json(value: Any) -> str:
    """Writes JSON that the contract allows. Raises `ValueError` or `TypeError` if the value can't
    be written."""
    return clean(json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")))


def clean(text: str) -> str:
    """Returns the text with U+FFFD in place of lone surrogates, which UTF-8 can't encode."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def check_depth(text: str) -> None:
    """Raises `ValueError` if the text is nested deeper than `MAX_DEPTH`."""
    # Nearly every text has fewer brackets than the limit, and counting them takes nearly no time.
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
    """Returns the end of the string that begins before `place`: its closing quote, or the end of
    the text."""
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
