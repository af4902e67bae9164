"""The base classes of plugins: one class per kind."""

from dataclasses import dataclass, field
from typing import Any, ClassVar, Optional, Union

from .errors import ModelError, PluginError
from .extra import WithExtra
from .types import (
    Action,
    Change,
    Delta,
    HttpRequest,
    Message,
    Output,
    Problem,
    Query,
    Reply,
    Request,
    Response,
    Tool,
    Verdict,
)


def _no_config() -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False}


@dataclass
class Descriptor(WithExtra):
    """The plugin's description. The host checks every config against `config_schema` (JSON Schema,
    draft 2020-12) and fills in the `default`s of its top-level properties. Only adapters have
    `secrets`, the names of the secrets in requests, and `hosts`, the hosts of requests with the
    default config."""

    name: str
    version: str
    summary: str
    config_schema: dict[str, Any] = field(default_factory=_no_config)
    secrets: list[str] = field(default_factory=list)
    hosts: list[str] = field(default_factory=list)
    extra: dict[str, Any] = field(default_factory=dict)


class Plugin:
    """The base class of all kinds. An instance is a configured plugin. The host may drop it between
    any two calls, so keep only state that can be computed again from the next call's arguments."""

    descriptor: ClassVar[Descriptor]

    def configure(self, config: dict[str, Any]) -> None:
        """Gets the config, which fits the schema. Called once, before all other methods. Raise
        `PluginError.invalid_config` for errors that a schema can't express."""


class Parser(Plugin):
    """Finds the actions in a reply."""

    def tools(self) -> list[Tool]:
        """The tools that are offered to the model; none for parsers of plain text."""
        return []

    def parse(self, reply: Reply) -> Union[list[Action], Problem]:
        """Returns the actions, or a `Problem` with the model's error."""
        raise NotImplementedError


class Formatter(Plugin):
    """Makes messages for the model from outputs.

    Implement `observe`. To make other messages, override `format`; for every action with a
    `tool_call_id` there must be a message of role `tool` with this id.
    """

    #: The output of an action that was not executed.
    NOT_EXECUTED: ClassVar[Output] = Output(
        returncode=-1, exception_info="action was not executed"
    )

    def observe(self, action: Action, output: Output) -> str:
        """The text of one observation."""
        raise NotImplementedError

    def format(self, actions: list[Action], outputs: list[Output]) -> list[Message]:
        """One message per output, and one per tool call that was not executed."""
        messages = []
        for place, action in enumerate(actions):
            if place >= len(outputs) and action.tool_call_id is None:
                continue
            output = outputs[place] if place < len(outputs) else self.NOT_EXECUTED
            text = self.observe(action, output)
            if action.tool_call_id is None:
                messages.append(Message("user", text))  # type: ignore[arg-type]
            else:
                messages.append(Message.tool(action.tool_call_id, text))
        return messages


class Processor(Plugin):
    """Computes the view of the history that the model gets: the whole protocol. `SimpleProcessor`
    is easier."""

    def apply(self, change: Change) -> Union[Change, Query]:
        """Gets the change of the input since the last call (on a fresh instance, `start` is 0 and
        `change` has all messages). Returns the change of the view, or a `Query` to the model."""
        raise NotImplementedError

    def resume(self, reply: Reply) -> Union[Change, Query]:
        """Gets the model's reply to a `Query`."""
        raise PluginError("unsupported", "this processor sends no queries, so it can't resume")


class SimpleProcessor(Plugin):
    """Computes the view of the history that the model gets, in one function."""

    def process(self, history: list[Message]) -> list[Message]:
        """Returns the view of the whole history. The same history must always give the same view.
        The messages are copies and may be changed; the SDK finds the differences to the last
        view."""
        raise NotImplementedError


class Policy(Plugin):
    """Judges an action before it runs."""

    def judge(self, action: Action) -> Verdict:
        """Returns `Allow()`, `Deny(...)`, `Ask(...)` or `Rewrite(...)`. After an error the host
        denies the action."""
        raise NotImplementedError


class Adapter(Plugin):
    """Implements a model's wire format, without I/O: `query` returns a request, the host sends it
    and passes the bytes of the response. `SimpleAdapter` is easier; this class can handle
    streams."""

    def query(self, change: Change, request: Request) -> Union[HttpRequest, Reply]:
        """Starts a query. `change` is the change of the history since the last query of this
        instance."""
        raise NotImplementedError

    def head(self, status: int, headers: list[tuple[str, str]]) -> None:
        """Gets the status and the headers of a response. With each `head` a new response begins."""
        raise NotImplementedError

    def feed(self, data: bytes) -> list[Delta]:
        """Gets the next piece of the body, which may be cut anywhere."""
        raise NotImplementedError

    def finish(self) -> Union[HttpRequest, Reply]:
        """Called when the body has ended."""
        raise NotImplementedError


class SimpleAdapter(Adapter):
    """An adapter as two functions: from the whole history to a request, from the whole response to
    a reply. The SDK keeps the history and joins the pieces of the body."""

    def send(self, history: list[Message], tools: list[Tool]) -> Union[HttpRequest, Reply]:
        """Returns the request for a history. Raise `ModelError` if no request can be made."""
        raise NotImplementedError

    def receive(self, response: Response) -> Union[HttpRequest, Reply]:
        """Returns the reply in a response of any status. Raise `ModelError` if it has no reply."""
        raise NotImplementedError

    _history: Optional[list[Message]] = None
    _response: Optional[Response] = None

    def query(self, change: Change, request: Request) -> Union[HttpRequest, Reply]:
        history = self._history = self._history if self._history is not None else []
        if change.start > len(history):
            raise ModelError(
                "bad-request",
                f"the history's change begins at message {change.start}, but only {len(history)} "
                "are known; this is a fault of the host, please report it",
            )
        change.apply_to(history)
        self._response = None
        return self.send(list(history), request.tools)

    def head(self, status: int, headers: list[tuple[str, str]]) -> None:
        self._body = bytearray()
        self._response = Response(status, dict(headers), b"")

    def feed(self, data: bytes) -> list[Delta]:
        if self._response is not None:
            self._body += data
        return []

    def finish(self) -> Union[HttpRequest, Reply]:
        response, self._response = self._response, None
        if response is None:
            raise ModelError(
                "malformed-response", "a response ended that had not begun; this is a fault of the host"
            )
        response.body = bytes(self._body)
        return self.receive(response)
