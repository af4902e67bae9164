"""Implements the protocol of changes for a `SimpleProcessor`."""

from typing import Any, Union

from .errors import PluginError
from .extra import extra_text
from .kinds import Processor, SimpleProcessor
from .types import Change, ContentPart, Image, Message, Opaque, Reasoning, Text, ToolCall

#: A message in a form that can't be changed, kept between calls.
Frozen = tuple[Any, ...]


class Diffing(Processor):
    """Keeps the history, applies the host's changes to it, and returns only those messages of the
    view that differ from the last view.

    It keeps copies. Otherwise a `process` that changes its messages in place would get another
    history than on a fresh instance.
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
        # After `start` 0 the host has no earlier view.
        old = [] if change.start == 0 else self._view
        history[change.start :] = [freeze(message) for message in change.messages]
        view = self._inner.process([thaw(message) for message in history])
        frozen = [freeze(message) for message in view]
        # The view is stored only now: after an error above, no part of the step must be stored.
        self._view = frozen
        return spread(old, frozen, view)


def check_start(change: Change, known: int) -> None:
    """Raises `PluginError` if a change begins after the end of a list of `known` messages."""
    if change.start > known:
        raise PluginError.invalid_input(
            f"a change starts at message {change.start}, but only {known} are known; send the whole "
            "history with `start` 0"
        )


def spread(old: list[Frozen], new: list[Frozen], messages: list[Message]) -> Change:
    """The change that makes `old` into `new`, with `places` if there are unchanged messages in
    between."""
    common = min(len(old), len(new))
    places = [place for place in range(common) if old[place] != new[place]]
    places += range(common, len(new))
    if not places:
        # Only messages at the end were removed, or nothing has changed.
        return Change(len(new))
    if places[-1] != len(new) - 1:
        # The view ends with the last of the places, so this must be the view's last message.
        places.append(len(new) - 1)
    change = Change(places[0], [messages[place] for place in places])
    if places[-1] - places[0] >= len(places):
        change.extra = {"places": places}
    return change


def freeze(message: Message) -> Frozen:
    """Returns the content of a message as a value that can't be changed."""
    return (
        message.role,
        tuple([_freeze_part(part) for part in message.content]),
        tuple([(c.id, c.name, c.arguments, extra_text(c)) for c in message.tool_calls]),
        message.tool_call_id,
        extra_text(message),
    )


def thaw(frozen: Frozen) -> Message:
    """Makes a new message from the result of `freeze`."""
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
