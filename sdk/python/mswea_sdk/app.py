"""The module that componentize-py builds. Only this module imports the generated modules.

`wit_world` and `componentize_py_types` exist only while a component is built and inside it. This
module converts between their values and the SDK's. It catches every exception and returns it as an
error: an uncaught exception would be a trap, which has no message.
"""

import codecs
import sys
from importlib import import_module
from typing import Any, Optional

import componentize_py_types
from wit_world import exports as world
from wit_world.exports import plugin as wit_plugin
from wit_world.imports import host as wit_host
from wit_world.imports import types as wit

from . import host
from .diffing import Diffing
from .errors import ModelError, PluginError
from .extra import dump_object, extra_text
from .json_text import check_depth, clean, dump_json, parse_json
from .kinds import Adapter, Formatter, Parser, Policy, Processor, SimpleProcessor
from .types import (
    Action,
    Allow,
    Ask,
    Change,
    Deny,
    HttpRequest,
    Image,
    Message,
    Opaque,
    Output,
    Problem,
    Query,
    Reasoning,
    Reply,
    Request,
    Rewrite,
    Secret,
    Text,
    Tool,
    ToolCall,
    Usage,
)

Err = componentize_py_types.Err

# --- the host's functions ---

_LEVELS = {level.name.lower(): level for level in wit_host.Level}


def _send_log(level: str, text: str) -> None:
    wit_host.log(_LEVELS[level], text)


def _send_render(template: str, vars: str) -> str:
    try:
        return wit_host.render(template, vars)
    except Err as error:
        raise PluginError(error.value.code, error.value.message, error.value.extra) from None


host._send_log = _send_log
host._send_render = _send_render


# A deep text would overflow the stack. Plugins use `json.loads` directly, so it is replaced.
def _guard_json() -> None:
    from json import JSONDecoder

    decode = JSONDecoder.decode

    def guarded(self: JSONDecoder, s: str, *args: Any) -> Any:
        check_depth(s)
        return decode(self, s, *args)

    JSONDecoder.decode = guarded  # type: ignore[method-assign]


_guard_json()

# There are no files inside a component, so codecs must be loaded when it is built. The SDK itself
# needs `utf-16-le`; plugins may need the others.
for _codec in ("utf-16-le", "utf-16", "utf-8-sig", "latin-1", "ascii", "cp1252", "unicode_escape"):
    codecs.lookup(_codec)

# --- the plugin ---

# The module; the package has the function under that name.
_export = import_module("mswea_sdk.export")

# The folder of the project, in a component for development.
_SOURCE = "/plugin"

_class: Any = None


def _load() -> None:
    """Imports the author's module, which calls `export`."""
    global _class
    if _class is not None:
        return
    if _export.late:
        sys.dont_write_bytecode = True
        sys.path.insert(0, _SOURCE)
    try:
        import plugin as _author  # noqa: F401
    except ModuleNotFoundError as error:
        if _export.late and error.name == "plugin":
            raise ImportError(
                "this component is for development and reads `plugin.py` from the project: say "
                "where that is (`mswea-host plugin check --source .`)"
            ) from None
        raise
    if _export.exported is None:
        raise ImportError("`plugin.py` exports nothing; its last line has to be `export(YourClass)`")
    _class = _export.exported


if not _export.late:
    _load()


class _NotConfigured:
    """Takes the place of the instance until `configure` makes it."""

    def __getattr__(self, name: str) -> Any:
        raise PluginError(
            "internal",
            "the plugin was called before `configure`; the host has to configure an instance first",
        )


_instance: Any = _NotConfigured()


def _fault(error: BaseException) -> Any:
    """Returns the error that the host gets for an exception."""
    if isinstance(error, PluginError):
        try:
            return Err(
                wit.PluginError(
                    _text(error.code, "PluginError.code"),
                    _text(error.message, "PluginError.message"),
                    extra_text(error),
                )
            )
        except Exception as other:
            error = other
    try:
        words = _words(error)
    except Exception:
        words = f"a {type(error).__name__} whose text can't be made"
    return Err(wit.PluginError("internal", words, None))


def _words(error: BaseException) -> str:
    """Returns the exception's text and its position in the code. Writes the traceback to standard
    error, for the log."""
    _print_traceback(error)
    place = ""
    trace = error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if "mswea_sdk" not in file:
            place = f", in {file.rpartition('/')[2]} line {trace.tb_lineno}"
        trace = trace.tb_next
    return clean(f"{type(error).__name__}: {error}"[:2000] + place)


def _print_traceback(error: BaseException) -> None:
    try:
        sys.excepthook(type(error), error, error.__traceback__)
    except Exception:
        # The traceback is for the log only.
        pass


# --- to the host ---


def _text(value: Any, what: str) -> str:
    if type(value) is not str:
        if not isinstance(value, str):
            raise TypeError(f"`{what}` has to be a str, not {type(value).__name__}")
        value = str.__str__(value)
    return value if value.isascii() else clean(value)


def _text_or_none(value: Any, what: str) -> Optional[str]:
    return None if value is None else _text(value, what)


def _number(value: Any, what: str, low: int, high: int) -> int:
    if not isinstance(value, int) or not low <= value <= high:
        raise TypeError(f"`{what}` has to be an int from {low} to {high}, not {value!r:.40}")
    return int(value)


def _list(value: Any, what: str) -> Any:
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"{what} has to be a list, not {type(value).__name__}")
    return value


def _part_out(part: Any) -> Any:
    if type(part) is Text:
        return wit.ContentPart_Text(_text(part.text, "Text.text"))
    if type(part) is Opaque:
        return wit.ContentPart_Opaque(
            wit.Opaque(
                _text(part.format, "Opaque.format"),
                _text(part.data, "Opaque.data"),
                extra_text(part),
            )
        )
    if type(part) is Image:
        return wit.ContentPart_Image(wit.Image(_text(part.url, "Image.url"), extra_text(part)))
    if type(part) is Reasoning:
        return wit.ContentPart_Reasoning(
            wit.Reasoning(_text(part.text, "Reasoning.text"), extra_text(part))
        )
    raise TypeError(
        f"a part of `Message.content` is a {type(part).__name__}; it has to be Text, Image, "
        "Reasoning or Opaque"
    )


def _message_out(message: Any) -> Any:
    if not isinstance(message, Message):
        raise TypeError(f"expected a Message, not {type(message).__name__}")
    return wit.Message(
        _text(message.role, "Message.role"),
        [_part_out(part) for part in _list(message.content, "`Message.content`")],
        [
            wit.ToolCall(
                _text(call.id, "ToolCall.id"),
                _text(call.name, "ToolCall.name"),
                _text(call.arguments, "ToolCall.arguments"),
                extra_text(call),
            )
            for call in _list(message.tool_calls, "`Message.tool_calls`")
        ],
        _text_or_none(message.tool_call_id, "Message.tool_call_id"),
        extra_text(message),
    )


def _action_out(action: Any) -> Any:
    if not isinstance(action, Action):
        raise TypeError(f"expected an Action, not {type(action).__name__}")
    return wit.Action(
        _text(action.command, "Action.command"),
        _text_or_none(action.tool_call_id, "Action.tool_call_id"),
        extra_text(action),
    )


def _tool_out(tool: Tool) -> Any:
    return wit.Tool(
        _text(tool.name, "Tool.name"),
        _text(tool.description, "Tool.description"),
        dump_object(tool.parameters, "Tool.parameters"),
        extra_text(tool),
    )


def _change_out(change: Change) -> Any:
    return wit.Change(
        _number(change.start, "Change.start", 0, 2**32 - 1),
        [_message_out(message) for message in _list(change.messages, "`Change.messages`")],
        extra_text(change),
    )


_MOST = 2**64 - 1


def _usage_out(usage: Optional[Usage]) -> Any:
    if usage is None:
        return None
    return wit.Usage(
        _number(usage.input_tokens, "Usage.input_tokens", 0, _MOST),
        _number(usage.cache_read_tokens, "Usage.cache_read_tokens", 0, _MOST),
        _number(usage.cache_write_tokens, "Usage.cache_write_tokens", 0, _MOST),
        _number(usage.output_tokens, "Usage.output_tokens", 0, _MOST),
        _number(usage.reasoning_tokens, "Usage.reasoning_tokens", 0, _MOST),
        None if usage.cost is None else float(usage.cost),
        extra_text(usage),
    )


def _reply_out(reply: Reply) -> Any:
    return wit.Reply(
        _message_out(reply.message),
        _text(reply.finish_reason, "Reply.finish_reason"),
        _usage_out(reply.usage),
        _text(reply.model, "Reply.model"),
        _text_or_none(reply.response, "Reply.response"),
        extra_text(reply),
    )


# --- from the host ---


def _part_in(part: Any) -> Any:
    kind, value = type(part), part.value
    if kind is wit.ContentPart_Text:
        return Text(value)
    if kind is wit.ContentPart_Opaque:
        return Opaque(value.format, value.data, value.extra)
    if kind is wit.ContentPart_Image:
        return Image(value.url, value.extra)
    return Reasoning(value.text, value.extra)


def _message_in(message: Any) -> Message:
    return Message(
        message.role,
        [_part_in(part) for part in message.content],
        [ToolCall(call.id, call.name, call.arguments, call.extra) for call in message.tool_calls],
        message.tool_call_id,
        message.extra,
    )


def _change_in(change: Any) -> Change:
    return Change(change.start, [_message_in(m) for m in change.messages], change.extra)


def _action_in(action: Any) -> Action:
    return Action(action.command, action.tool_call_id, action.extra)


def _usage_in(usage: Any) -> Optional[Usage]:
    if usage is None:
        return None
    return Usage(
        usage.input_tokens,
        usage.cache_read_tokens,
        usage.cache_write_tokens,
        usage.output_tokens,
        usage.reasoning_tokens,
        usage.cost,
        usage.extra,
    )


def _reply_in(reply: Any) -> Reply:
    return Reply(
        _message_in(reply.message),
        reply.finish_reason,
        _usage_in(reply.usage),
        reply.model,
        reply.response,
        reply.extra,
    )


# --- the exports ---


def _exports(interface: str, *kinds: type) -> bool:
    """Whether the world exports an interface; the class has to be of its kind."""
    if not hasattr(world, interface):
        return False
    # In a component for development, the class is not known yet.
    if _class is not None and not issubclass(_class, kinds):
        names = " or ".join(kind.__name__ for kind in kinds)
        raise TypeError(
            f"`{_class.__name__}` does not derive from {names}, which this world exports; build it "
            "for another world (`-w`), or derive it from that"
        )
    return True


def _descriptor() -> Any:
    it = _class.descriptor
    return wit_plugin.Descriptor(
        _text(it.name, "Descriptor.name"),
        _text(it.version, "Descriptor.version"),
        _text(it.summary, "Descriptor.summary"),
        dump_object(it.config_schema, "Descriptor.config_schema"),
        [_text(secret, "Descriptor.secrets") for secret in it.secrets],
        [_text(name, "Descriptor.hosts") for name in it.hosts],
        extra_text(it),
    )


_described: Any = None if _export.late else _descriptor()


class Plugin:
    def describe(self) -> Any:
        global _described
        if _described is None:
            _load()
            _described = _descriptor()
        return _described

    def configure(self, config: str) -> None:
        global _instance
        try:
            _load()
            made = _class()
            if isinstance(made, SimpleProcessor):
                made = Diffing(made)
            made.configure(parse_json(config))
            _instance = made
        except BaseException as error:
            raise _fault(error) from None


if _exports("ActionParser", Parser):
    from wit_world.exports import action_parser as wit_parser

    class ActionParser:
        def tools(self) -> Any:
            return [_tool_out(tool) for tool in _list(_instance.tools(), "`tools()`")]

        def parse(self, reply: Any) -> Any:
            try:
                outcome = _instance.parse(_reply_in(reply))
                if type(outcome) is Problem:
                    return wit_parser.Outcome_Malformed(
                        wit_parser.Problem(
                            _text(outcome.code, "Problem.code"),
                            _text(outcome.message, "Problem.message"),
                            dump_object(outcome.details, "Problem.details")
                            if outcome.details
                            else None,
                            extra_text(outcome),
                        )
                    )
                actions = _list(outcome, "the result of `parse`, if it is no Problem,")
                return wit_parser.Outcome_Actions([_action_out(action) for action in actions])
            except BaseException as error:
                raise _fault(error) from None


if _exports("ObservationFormatter", Formatter):

    class ObservationFormatter:
        def format(self, actions: Any, outputs: Any) -> Any:
            try:
                messages = _instance.format(
                    [_action_in(action) for action in actions],
                    [Output(o.output, o.returncode, o.exception_info, o.extra) for o in outputs],
                )
                return [_message_out(m) for m in _list(messages, "the result of `format`")]
            except BaseException as error:
                raise _fault(error) from None


if _exports("HistoryProcessor", Processor, SimpleProcessor):
    from wit_world.exports import history_processor as wit_processor

    def _view_out(answer: Any) -> Any:
        if isinstance(answer, Change):
            return wit_processor.Next_Done(_change_out(answer))
        if isinstance(answer, Query):
            return wit_processor.Next_Ask(
                wit_processor.Query(
                    [_message_out(message) for message in answer.messages],
                    _text(answer.purpose, "Query.purpose"),
                    extra_text(answer),
                )
            )
        raise TypeError(f"a processor returns a Change or a Query, not {type(answer).__name__}")

    class HistoryProcessor:
        def apply(self, change: Any) -> Any:
            try:
                return _view_out(_instance.apply(_change_in(change)))
            except BaseException as error:
                raise _fault(error) from None

        def resume(self, reply: Any) -> Any:
            try:
                return _view_out(_instance.resume(_reply_in(reply)))
            except BaseException as error:
                raise _fault(error) from None


if _exports("ActionPolicy", Policy):
    from wit_world.exports import action_policy as wit_policy

    def _objection_out(verdict: Any) -> Any:
        return wit_policy.Objection(
            _text(verdict.code, "code"), _text(verdict.message, "message"), extra_text(verdict)
        )

    class ActionPolicy:
        def judge(self, action: Any) -> Any:
            try:
                verdict = _instance.judge(_action_in(action))
                if type(verdict) is Allow:
                    return wit_policy.Verdict_Allow()
                if type(verdict) is Deny:
                    return wit_policy.Verdict_Deny(_objection_out(verdict))
                if type(verdict) is Ask:
                    return wit_policy.Verdict_Ask(_objection_out(verdict))
                if type(verdict) is Rewrite:
                    return wit_policy.Verdict_Rewrite(_action_out(verdict.action))
                raise TypeError(
                    f"`judge` returns Allow, Deny, Ask or Rewrite, not {type(verdict).__name__}"
                )
            except BaseException as error:
                raise _fault(error) from None


if _exports("ModelAdapter", Adapter):
    from wit_world.exports import model_adapter as wit_adapter

    # An exception in `head` or `feed`, which can't return errors; `finish` reports it.
    _broken: Optional[BaseException] = None

    def _header_out(header: Any) -> Any:
        name, value = header
        if isinstance(value, Secret):
            secret = wit_adapter.Secret(
                _text(value.name, "Secret.name"),
                _text(value.prefix, "Secret.prefix"),
                extra_text(value),
            )
            return wit_adapter.Header(
                _text(name, "a header's name"), wit_adapter.HeaderValue_Secret(secret)
            )
        plain = wit_adapter.HeaderValue_Plain(_text(value, "a header's value"))
        return wit_adapter.Header(_text(name, "a header's name"), plain)

    def _next_out(answer: Any) -> Any:
        if isinstance(answer, Reply):
            return wit_adapter.Next_Reply(_reply_out(answer))
        if isinstance(answer, HttpRequest):
            if not isinstance(answer.body, (bytes, bytearray)):
                raise TypeError(
                    f"`HttpRequest.body` has to be bytes, not {type(answer.body).__name__}"
                )
            return wit_adapter.Next_Send(
                wit_adapter.HttpRequest(
                    _text(answer.method, "HttpRequest.method"),
                    _text(answer.url, "HttpRequest.url"),
                    [_header_out(header) for header in answer.headers],
                    bytes(answer.body),
                    extra_text(answer),
                )
            )
        raise TypeError(f"an adapter returns an HttpRequest or a Reply, not {type(answer).__name__}")

    def _model_error(error: BaseException) -> Any:
        if isinstance(error, ModelError):
            try:
                wait = error.retry_after_ms
                return Err(
                    wit_adapter.ModelError(
                        _text(error.class_, "ModelError.class_"),
                        _text(error.message, "ModelError.message"),
                        None if wait is None else _number(wait, "retry_after_ms", 0, _MOST),
                        _usage_out(error.usage),
                        extra_text(error),
                    )
                )
            except Exception as other:
                error = other
        # A fault of the plugin has no class of its own; the host does not retry this one.
        fault = _fault(error).value
        return Err(wit_adapter.ModelError("bad-request", fault.message, None, None, fault.extra))

    class ModelAdapter:
        def query(self, change: Any, request: Any) -> Any:
            global _broken
            _broken = None
            try:
                tools = [
                    Tool(tool.name, tool.description, parse_json(tool.parameters), tool.extra)
                    for tool in request.tools
                ]
                return _next_out(_instance.query(_change_in(change), Request(tools, request.extra)))
            except BaseException as error:
                raise _model_error(error) from None

        def head(self, status: int, headers: Any) -> None:
            global _broken
            _broken = None
            try:
                _instance.head(status, headers)
            except BaseException as error:
                _broken = error

        def feed(self, bytes: bytes) -> Any:
            global _broken
            if _broken is not None:
                return []
            try:
                return [
                    wit_adapter.Delta(
                        _text(delta.kind, "Delta.kind"),
                        _text(delta.text, "Delta.text"),
                        extra_text(delta),
                    )
                    for delta in _instance.feed(bytes) or []
                ]
            except BaseException as error:
                _broken = error
                return []

        def finish(self) -> Any:
            global _broken
            broken, _broken = _broken, None
            try:
                if broken is not None:
                    raise broken
                return _next_out(_instance.finish())
            except BaseException as error:
                raise _model_error(error) from None
