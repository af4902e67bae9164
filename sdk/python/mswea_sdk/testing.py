"""For a plugin's unit tests: replacements of the host's functions, input values, and a driver that
calls a processor as the host does. These helpers raise `AssertionError` if a test should fail."""

import copy
from typing import Any, Callable, Optional, TypeVar, Union

from . import host
from .diffing import Diffing, freeze, thaw
from .kinds import Parser, Plugin, Processor, SimpleProcessor
from .types import Change, Message, Problem, Query, Reply, ToolCall

P = TypeVar("P", bound=Plugin)


def set_render(render: Optional[Callable[[str, dict[str, Any]], str]]) -> None:
    """Sets the function that `host.render` calls; `None` removes it."""
    host._render = render


def take_log() -> list[tuple[str, str]]:
    """Returns and removes the log lines so far, each as `(level, text)`."""
    kept = list(host._kept)
    host._kept.clear()
    return kept


def configure(plugin: type[P], config: Optional[dict[str, Any]] = None) -> P:
    """Configures a plugin as the host does: with the `default`s of its schema filled in."""
    filled = dict(config or {})
    for name, schema in plugin.descriptor.config_schema.get("properties", {}).items():
        if isinstance(schema, dict) and "default" in schema:
            filled.setdefault(name, copy.deepcopy(schema["default"]))
    made = plugin()
    made.configure(filled)
    return made


def reply_text(text: str) -> Reply:
    """A reply of plain text."""
    return Reply(Message("assistant", text), "stop")  # type: ignore[arg-type]


def reply_calls(*calls: tuple[str, str, str]) -> Reply:
    """A reply of tool calls, each as `(id, name, arguments)`."""
    return Reply(Message("assistant", [], [ToolCall(*call) for call in calls]), "tool_calls")


def commands(parser: Parser, reply: Reply) -> Union[list[str], str]:
    """Parses a reply: returns the commands, or the message of the problem."""
    outcome = parser.parse(reply)
    if isinstance(outcome, Problem):
        return outcome.message
    return [action.command for action in outcome]


class Driver:
    """A processor together with the host's copy of its view.

    `answer` is called with each query of the processor, and returns the reply.
    """

    def __init__(
        self,
        plugin: type[Plugin],
        config: Optional[dict[str, Any]] = None,
        answer: Optional[Callable[[Query], Reply]] = None,
    ):
        made = configure(plugin, config)
        processor = Diffing(made) if isinstance(made, SimpleProcessor) else made
        assert isinstance(processor, Processor), f"{plugin.__name__} is no processor"
        self._processor = processor
        self._answer = answer
        #: The view after the last change.
        self.view: list[Message] = []
        #: The last change of the view.
        self.last = Change(0)

    def apply(self, change: Change) -> list[Message]:
        """Passes a change, applies the result to the view, and returns the view."""
        answer = self._processor.apply(_copied(change))
        while isinstance(answer, Query):
            assert self._answer is not None, f"the processor asked for `{answer.purpose}`"
            answer = self._processor.resume(self._answer(answer))
        assert answer.start <= len(self.view), (
            f"the view has {len(self.view)} messages, but its change starts at {answer.start}"
        )
        self.last = _copied(answer)
        _copied(answer).apply_to(self.view)
        return self.view


def check_fresh_instances(
    plugin: type[Plugin], changes: list[Change], config: Optional[dict[str, Any]] = None
) -> list[list[Message]]:
    """Runs a processor over changes twice, with one instance and with a fresh one for each change,
    and fails unless the views are equal. Returns the views."""
    warm = Driver(plugin, config)
    history: list[Message] = []
    views = []
    for number, change in enumerate(changes):
        _copied(change).apply_to(history)
        view = [thaw(freeze(message)) for message in warm.apply(change)]
        fresh = Driver(plugin, config).apply(Change(0, list(history)))
        assert view == fresh, (
            f"after change {number} a warm instance shows {view} and a fresh one {fresh}"
        )
        views.append(view)
    return views


def _copied(change: Change) -> Change:
    """Returns a copy, so that a change in place of one copy has no effect on the other."""
    messages = [thaw(freeze(message)) for message in change.messages]
    return Change(change.start, messages, dict(change.extra))
