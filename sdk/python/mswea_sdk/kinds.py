"""What a plugin derives from: one class per kind."""

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
    """Who the plugin is. The host checks every config against `config_schema` (JSON Schema, draft
    2020-12) and fills in the `default`s of its top-level properties. `secrets` and `hosts` are for
    adapters: what its requests may name, and where they go by default."""

    name: str
    version: str
    summary: str
    config_schema: dict[str, Any] = field(default_factory=_no_config)
    secrets: list[str] = field(default_factory=list)
    hosts: list[str] = field(default_factory=list)
    extra: dict[str, Any] = field(default_factory=dict)


class Plugin:
    """What all kinds have in common. An instance is a configured plugin; the host may drop it
    between any two calls, so keep nothing in it that the next call's arguments don't bring back."""

    descriptor: ClassVar[Descriptor]

    def configure(self, config: dict[str, Any]) -> None:
        """Takes the config, which fits the schema. Called once, before everything else. Raise
        `PluginError.invalid_config` for what a schema can't say."""


class Parser(Plugin):
    """Finds the actions in a reply."""

    def tools(self) -> list[Tool]:
        """The tools that the model is told about; none for parsers of plain text."""
        return []

    def parse(self, reply: Reply) -> Union[list[Action], Problem]:
        """The actions, or what the model did wrong."""
        raise NotImplementedError


class Formatter(Plugin):
    """Turns outputs into the messages that the model sees.

    Implement `observe`; the rest is done. Override `format` for another shape of messages, but
    answer every action that has a `tool_call_id` with a message of role `tool` with that id.
    """

    #: What an action that was not executed came to.
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
    """Changes what the model sees of the history: the whole protocol. `SimpleProcessor` is
    easier."""

    def apply(self, change: Change) -> Union[Change, Query]:
        """The input changed by `change` since the last call (`start` 0 and everything on a fresh
        instance). Answers with the change of its own view, or asks the model first."""
        raise NotImplementedError

    def resume(self, reply: Reply) -> Union[Change, Query]:
        """The model's answer to a `Query`."""
        raise PluginError("unsupported", "this processor asks nothing, so it can't resume")


class SimpleProcessor(Plugin):
    """Changes what the model sees of the history, as one plain function."""

    def process(self, history: list[Message]) -> list[Message]:
        """The view of the whole history. The same history always gives the same view. The messages
        are yours to change; the SDK finds out what differs from the last view."""
        raise NotImplementedError


class Policy(Plugin):
    """Judges an action before it runs."""

    def judge(self, action: Action) -> Verdict:
        """`Allow()`, `Deny(...)`, `Ask(...)` or `Rewrite(...)`. An error denies."""
        raise NotImplementedError


class Adapter(Plugin):
    """Speaks a model's wire format, without its I/O: `query` says what to send, the host sends it
    and hands the answer's bytes back. `SimpleAdapter` is easier; this one can stream."""

    def query(self, change: Change, request: Request) -> Union[HttpRequest, Reply]:
        """Starts a query. `change` is against the history of the last query of this instance."""
        raise NotImplementedError

    def head(self, status: int, headers: list[tuple[str, str]]) -> None:
        """The response's status and headers. Each `head` starts over."""
        raise NotImplementedError

    def feed(self, data: bytes) -> list[Delta]:
        """The next piece of the body, cut anywhere."""
        raise NotImplementedError

    def finish(self) -> Union[HttpRequest, Reply]:
        """The body has ended."""
        raise NotImplementedError


class SimpleAdapter(Adapter):
    """An adapter as two plain functions: the whole history to a request, the whole response to a
    reply. The SDK keeps the history and puts the body together."""

    def send(self, history: list[Message], tools: list[Tool]) -> Union[HttpRequest, Reply]:
        """What to send for this history. Raise `ModelError` if there is nothing."""
        raise NotImplementedError

    def receive(self, response: Response) -> Union[HttpRequest, Reply]:
        """What came back, whatever its status. Raise `ModelError` if it is no reply."""
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
