"""`extra`: the JSON object of every record, parsed at the first access."""

from typing import Any, Optional, Union

from .json_text import dump_json, parse_json


class WithExtra:
    """Gives a class the attribute `extra`, a `dict`.

    The host's text is parsed at the first access. A plugin that only passes it on does not parse
    it, and returns it byte for byte.
    """

    _extra: Union[str, dict[str, Any]]

    @property
    def extra(self) -> dict[str, Any]:
        extra = self._extra
        if type(extra) is str:
            extra = self._extra = _object(extra)
        return extra  # type: ignore[return-value]

    @extra.setter
    def extra(self, extra: dict[str, Any]) -> None:
        # The SDK itself passes the host's text, or `None`.
        self._extra = {} if extra is None else extra


def extra_text(owner: WithExtra) -> Optional[str]:
    """Returns the `extra` in the contract's form: JSON text, or `None`."""
    extra = owner._extra
    if type(extra) is str:
        return extra
    if not extra:
        return None
    return dump_object(extra, f"{type(owner).__name__}.extra")


def dump_object(value: Any, what: str) -> str:
    """Returns an object as JSON text; the message of the `TypeError` has the name `what`."""
    if not isinstance(value, dict):
        raise TypeError(f"`{what}` has to be a dict, not {type(value).__name__}")
    try:
        return dump_json(value)
    except (TypeError, ValueError) as error:
        raise TypeError(f"`{what}` can't be written as JSON: {error}") from None


def _object(text: str) -> dict[str, Any]:
    value = parse_json(text)
    if not isinstance(value, dict):
        raise ValueError("an `extra` of the host is no JSON object; this is a fault of the host")
    return value
