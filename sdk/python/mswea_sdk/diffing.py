"""A `SimpleProcessor` that speaks the protocol of changes."""

from typing import Any, Union

from .errors import PluginError
from .extra import extra_text
from .kinds import Processor, SimpleProcessor
from .types import Change, ContentPart, Image, Message, Opaque, Reasoning, Text, ToolCall

#: A message that nobody can change: what is kept between calls.
Frozen = tuple[Any, ...]


class Diffing(Processor):
    """Keeps the history, lays the host's changes over it, and sends back only those messages of the
    view that differ from the last one.

    What it keeps are copies, so that a `process` which changes its messages in place does no harm:
    under `--fresh-instances` it would see another history otherwise.
    """

    def __init__(self, inner: SimpleProcessor):
        self._inner = inner
        self._history: list[Frozen] = []
        self._view: list[Frozen] = []

    def configure(self, config: dict[str, Any]) -> None:
        self._inner.configure(config)

    def apply(self, change: Change) -> Change:
        history = self._history
        check_start(change, len(history))
        # After `start` 0 the host knows nothing of an earlier view.
        old = [] if change.start == 0 else self._view
        history[change.start :] = [freeze(message) for message in change.messages]
        view = self._inner.process([thaw(message) for message in history])
        frozen = [freeze(message) for message in view]
        # Kept only now: an error above must not leave half of a step behind.
        self._view = frozen
        return spread(old, frozen, view)


def check_start(change: Change, known: int) -> None:
    """Raises `PluginError` if a change begins behind the end of the list that it is for."""
    if change.start > known:
        raise PluginError.invalid_input(
            f"a change starts at message {change.start}, but only {known} are known; send the whole "
            "history with `start` 0"
        )


def spread(old: list[Frozen], new: list[Frozen], messages: list[Message]) -> Change:
    """The change that makes `old` into `new`, with `places` if something in between is the same."""
    common = min(len(old), len(new))
    places = [place for place in range(common) if old[place] != new[place]]
    places += range(common, len(new))
    if not places:
        # A part at the end fell away, or nothing changed at all.
        return Change(len(new))
    if places[-1] != len(new) - 1:
        # Behind the last place there is nothing: it has to be the view's last message.
        places.append(len(new) - 1)
    change = Change(places[0], [messages[place] for place in places])
    if places[-1] - places[0] >= len(places):
        change.extra = {"places": places}
    return change


def freeze(message: Message) -> Frozen:
    """Everything that is in a message, by value."""
    return (
        message.role,
        tuple([_freeze_part(part) for part in message.content]),
        tuple([(c.id, c.name, c.arguments, extra_text(c)) for c in message.tool_calls]),
        message.tool_call_id,
        extra_text(message),
    )


def thaw(frozen: Frozen) -> Message:
    """A message of its own from what `freeze` made."""
    role, content, calls, tool_call_id, extra = frozen
    return Message(
        role,
        [_thaw_part(part) for part in content],
        [ToolCall(*call) for call in calls],
        tool_call_id,
        extra,
    )


def _freeze_part(part: ContentPart) -> Union[str, Frozen]:
    if type(part) is Text:
        return part.text
    if type(part) is Opaque:
        return (Opaque, part.format, part.data, extra_text(part))
    if type(part) is Image:
        return (Image, part.url, extra_text(part))
    if type(part) is Reasoning:
        return (Reasoning, part.text, extra_text(part))
    raise TypeError(
        f"a part of `Message.content` is a {type(part).__name__}; it has to be Text, Image, "
        "Reasoning or Opaque"
    )


def _thaw_part(part: Union[str, Frozen]) -> ContentPart:
    if type(part) is str:
        return Text(part)
    return part[0](*part[1:])  # type: ignore[operator, index]
