"""Errors of plugins and providers. For an error of the *model*, return a `Problem` or a `Deny`."""

from typing import Any, Optional

from .extra import WithExtra
from .types import Usage


class PluginError(WithExtra, Exception):
    """A fault of the plugin, its config or its input. The user gets the message.

    `code` is `invalid-config`, `invalid-input`, `unsupported`, `internal`, `template` (the error of
    `host.render`) or a code of your own; `message` has the cause and the remedy.
    """

    def __init__(self, code: str, message: str, extra: Optional[dict[str, Any]] = None):
        super().__init__(code, message)
        self.code = code
        self.message = message
        self.extra = extra if extra is not None else {}

    @classmethod
    def invalid_config(cls, message: str, pointer: Optional[str] = None) -> "PluginError":
        """The config is wrong. `pointer` is the JSON pointer of the value (`/limit`), from which
        the host finds the file and the line."""
        return cls("invalid-config", message, None if pointer is None else {"pointer": pointer})

    @classmethod
    def invalid_input(cls, message: str) -> "PluginError":
        """The host's input is invalid."""
        return cls("invalid-input", message)

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


class ModelError(WithExtra, Exception):
    """The reason why there is no reply; adapters raise it.

    `class_` is one of `authentication`, `permission`, `not-found`, `bad-request`,
    `context-window-exceeded`, `rate-limited`, `overloaded`, `timeout`, `network`,
    `content-filtered` and `malformed-response`. The host retries `rate-limited`, `overloaded`,
    `timeout`, `network` and `malformed-response`.
    """

    def __init__(
        self,
        class_: str,
        message: str,
        retry_after_ms: Optional[int] = None,
        usage: Optional[Usage] = None,
        extra: Optional[dict[str, Any]] = None,
    ):
        super().__init__(class_, message)
        self.class_ = class_
        self.message = message
        self.retry_after_ms = retry_after_ms
        self.usage = usage
        self.extra = extra if extra is not None else {}

    def __str__(self) -> str:
        return f"{self.class_}: {self.message}"
