"""The values that cross the boundary; `wit/types.wit` has what each field means."""

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
    """Text in which a model reasons."""

    text: str
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass
class Opaque(WithExtra):
    """A provider's own block: `data` is JSON text, to be passed on as it is."""

    format: str
    data: str
    extra: dict[str, Any] = field(default_factory=dict)


ContentPart = Union[Text, Image, Reasoning, Opaque]


@dataclass
class ToolCall(WithExtra):
    """A tool call as the model wrote it: of `arguments` nothing is promised."""

    id: str
    name: str
    arguments: str
    extra: dict[str, Any] = field(default_factory=dict)

    def parse_arguments(self) -> dict[str, Any]:
        """The arguments, if they are a JSON object; else a `ValueError` says what they are."""
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
        """The answer to a tool call."""
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
    """`history[start:]` is now `messages`; with `places` in its `extra`, only some of it is."""

    start: int
    messages: list[Message] = field(default_factory=list)
    extra: dict[str, Any] = field(default_factory=dict)

    def apply_to(self, history: list[Message]) -> None:
        """Lays the change over a list."""
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
    """A tool that the model is told about; `parameters` is the JSON Schema of its arguments."""

    name: str
    description: str
    parameters: dict[str, Any]
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass
class Action(WithExtra):
    """One thing to do: a shell command."""

    command: str
    tool_call_id: Optional[str] = None
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass
class Output(WithExtra):
    """What came of one action."""

    output: str = ""
    returncode: int = 0
    exception_info: str = ""
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass
class Usage(WithExtra):
    """Tokens and money of one reply. Unknown counts are 0, an unknown cost is `None`."""

    input_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    cost: Optional[float] = None
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass
class Reply(WithExtra):
    """What a model answered. `response` is the provider's, as JSON text; only adapters set it."""

    message: Message
    finish_reason: str = ""
    usage: Optional[Usage] = None
    model: str = ""
    response: Optional[str] = None
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass
class Problem(WithExtra):
    """What the model did wrong, for the model to read; parsers return it.

    `details` are further variables of the feedback template.
    """

    code: str
    message: str
    details: dict[str, Any] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass
class Allow:
    """Run it."""


@dataclass
class Deny(WithExtra):
    """Do not run it, and tell the model this. `code` is a stable word, for example `blocked`."""

    message: str
    code: str = ""
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass
class Ask(WithExtra):
    """Ask the person, giving this reason."""

    message: str
    code: str = ""
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass
class Rewrite:
    """Run this instead."""

    action: Action


Verdict = Union[Allow, Deny, Ask, Rewrite]


@dataclass
class Query(WithExtra):
    """A question of a processor for the model. `purpose` is a word: `summary`, ..."""

    messages: list[Message]
    purpose: str
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass
class Secret(WithExtra):
    """The value of a header that the host fills in: `prefix`, then the secret called `name`."""

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
    """What goes with a query besides the history."""

    tools: list[Tool] = field(default_factory=list)
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass
class Delta(WithExtra):
    """A piece of the answer, to be shown live: `kind` is `text`, `reasoning` or `tool-call`."""

    kind: str
    text: str
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass
class Response:
    """A whole response, as `SimpleAdapter.receive` gets it; names of headers in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes
