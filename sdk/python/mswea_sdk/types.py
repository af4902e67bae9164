"""The values of the contract; `wit/types.wit` documents the fields."""

from dataclasses import dataclass, field
from typing import Any, Optional, Union

from .extra import WithExtra
from .json_text import parse_json


@dataclass
class Text:
    """Plain text."""

    text: str


@dataclass
class Image(WithExtra):
    """An image, by an `https:` or `data:` URL."""

    url: str
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass
class Reasoning(WithExtra):
    """The model's readable reasoning."""

    text: str
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass
class Opaque(WithExtra):
    """A block in a provider's own format: `data` is JSON text, which must be passed on
    unchanged."""

    format: str
    data: str
    extra: dict[str, Any] = field(default_factory=dict)


ContentPart = Union[Text, Image, Reasoning, Opaque]


@dataclass
class ToolCall(WithExtra):
    """A tool call as the model wrote it: `arguments` may be any text."""

    id: str
    name: str
    arguments: str
    extra: dict[str, Any] = field(default_factory=dict)

    def parse_arguments(self) -> dict[str, Any]:
        """Returns the arguments if they are a JSON object; else raises `ValueError`."""
        value = parse_json(self.arguments)
        if not isinstance(value, dict):
            raise ValueError("the arguments are no JSON object")
        return value


@dataclass
class Message(WithExtra):
    """One message. `Message("user", "text")` is short for a content of one text part."""

    role: str
    content: list[ContentPart] = field(default_factory=list)
    tool_calls: list[ToolCall] = field(default_factory=list)
    tool_call_id: Optional[str] = None
    extra: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if isinstance(self.content, str):
            self.content = [Text(self.content)]

    @classmethod
    def tool(cls, tool_call_id: str, text: str) -> "Message":
        """The result of a tool call."""
        return cls("tool", [Text(text)], tool_call_id=tool_call_id)

    @property
    def text(self) -> str:
        """The text parts, joined. Setting it replaces them; other parts stay."""
        return "".join([part.text for part in self.content if type(part) is Text])

    @text.setter
    def text(self, text: str) -> None:
        others: list[ContentPart] = [part for part in self.content if type(part) is not Text]
        self.content = [Text(text), *others]


@dataclass
class Change(WithExtra):
    """`history[start:]` is now `messages`; with `places` in `extra`, only the messages at these
    indices change."""

    start: int
    messages: list[Message] = field(default_factory=list)
    extra: dict[str, Any] = field(default_factory=dict)

    def apply_to(self, history: list[Message]) -> None:
        """Applies the change to a list."""
        places = self.extra.get("places")
        if places is None:
            history[self.start :] = self.messages
            return
        end = self.start
        for place, message in zip(places, self.messages):
            history[place : place + 1] = [message]
            end = place + 1
        del history[end:]


@dataclass
class Tool(WithExtra):
    """A tool that is offered to the model; `parameters` is the JSON Schema of its arguments."""

    name: str
    description: str
    parameters: dict[str, Any]
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass
class Action(WithExtra):
    """An action: a shell command."""

    command: str
    tool_call_id: Optional[str] = None
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass
class Output(WithExtra):
    """The output of one action."""

    output: str = ""
    returncode: int = 0
    exception_info: str = ""
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass
class Usage(WithExtra):
    """The tokens and the cost of one reply. Unknown counts are 0, an unknown cost is `None`."""

    input_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    cost: Optional[float] = None
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass
class Reply(WithExtra):
    """A model's reply. `response` is the provider's response as JSON text; only adapters set it."""

    message: Message
    finish_reason: str = ""
    usage: Optional[Usage] = None
    model: str = ""
    response: Optional[str] = None
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass
class Problem(WithExtra):
    """The model's error; the model gets the message. Parsers return it.

    `details` are further variables of the feedback template.
    """

    code: str
    message: str
    details: dict[str, Any] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass
class Allow:
    """Run the action."""


@dataclass
class Deny(WithExtra):
    """Do not run the action; the model gets the message. `code` is the same in every version, for
    example `blocked`."""

    message: str
    code: str = ""
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass
class Ask(WithExtra):
    """Ask the user to confirm the action, for this reason."""

    message: str
    code: str = ""
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass
class Rewrite:
    """Run this action instead."""

    action: Action


Verdict = Union[Allow, Deny, Ask, Rewrite]


@dataclass
class Query(WithExtra):
    """A query of a processor to the model. `purpose` is one word: `summary`, ..."""

    messages: list[Message]
    purpose: str
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass
class Secret(WithExtra):
    """A header's value that the host fills in: `prefix`, then the secret with this name."""

    name: str
    prefix: str = ""
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass
class HttpRequest(WithExtra):
    """A request for the host to send."""

    method: str
    url: str
    headers: list[tuple[str, Union[str, Secret]]] = field(default_factory=list)
    body: bytes = b""
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass
class Request(WithExtra):
    """The input of a query besides the history."""

    tools: list[Tool] = field(default_factory=list)
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass
class Delta(WithExtra):
    """New text of the reply, for display: `kind` is `text`, `reasoning` or `tool-call`. Two kinds have
    no text, and tell the host that the reply is complete although the connection stays open:
    `finished` (token counts may follow) and `end` (nothing that follows counts)."""

    kind: str
    text: str = ""
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass
class Response:
    """A whole response, as `SimpleAdapter.receive` gets it; names of headers in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes
