"""Tests of `app.py`, with replacements of the modules that componentize-py generates."""

import contextlib
import importlib
import io
import json
import sys
import unittest
from dataclasses import make_dataclass
from enum import Enum
from types import ModuleType

from mswea_sdk import (
    Action,
    Adapter,
    Allow,
    Ask,
    Change,
    Deny,
    Descriptor,
    Formatter,
    HttpRequest,
    Message,
    ModelError,
    Parser,
    PluginError,
    Policy,
    Problem,
    Query,
    Processor,
    Reply,
    Rewrite,
    Secret,
    Tool,
    Usage,
    export,
    host,
)
from mswea_sdk.types import Delta

# The classes that componentize-py generates from `wit/`: one per record and per case.
RECORDS = {
    "wit_world.imports.types": {
        "Image": "url extra",
        "Reasoning": "text extra",
        "Opaque": "format data extra",
        "ContentPart_Text": "value",
        "ContentPart_Image": "value",
        "ContentPart_Reasoning": "value",
        "ContentPart_Opaque": "value",
        "ToolCall": "id name arguments extra",
        "Message": "role content tool_calls tool_call_id extra",
        "Change": "start messages extra",
        "Tool": "name description parameters extra",
        "Action": "command tool_call_id extra",
        "Output": "output returncode exception_info extra",
        "Usage": "input_tokens cache_read_tokens cache_write_tokens output_tokens "
        "reasoning_tokens cost extra",
        "Reply": "message finish_reason usage model response extra",
        "PluginError": "code message extra",
    },
    "wit_world.exports.plugin": {
        "Descriptor": "name version summary config_schema secrets hosts extra"
    },
    "wit_world.exports.action_parser": {
        "Problem": "code message details extra",
        "Outcome_Actions": "value",
        "Outcome_Malformed": "value",
    },
    "wit_world.exports.history_processor": {
        "Query": "messages purpose extra",
        "Next_Done": "value",
        "Next_Ask": "value",
    },
    "wit_world.exports.action_policy": {
        "Objection": "code message extra",
        "Verdict_Allow": "",
        "Verdict_Deny": "value",
        "Verdict_Ask": "value",
        "Verdict_Rewrite": "value",
    },
    "wit_world.exports.model_adapter": {
        "Secret": "name prefix extra",
        "HeaderValue_Plain": "value",
        "HeaderValue_Secret": "value",
        "Header": "name value",
        "HttpRequest": "method url headers body extra",
        "Delta": "kind text extra",
        "Request": "tools extra",
        "Next_Send": "value",
        "Next_Reply": "value",
        "ModelError": "class_ message retry_after_ms usage extra",
    },
}

KINDS = {
    "ActionParser": Parser,
    "ObservationFormatter": Formatter,
    "HistoryProcessor": Processor,
    "ActionPolicy": Policy,
    "ModelAdapter": Adapter,
}


class Err(Exception):
    def __init__(self, value):
        super().__init__(value)
        self.value = value


class Everything(Parser, Formatter, Processor, Policy, Adapter):
    """A plugin whose functions all call `act`, which the test sets."""

    descriptor = Descriptor("every", "0.1.0", "x", {"type": "object"}, secrets=["KEY"])

    def act(self, *given):
        raise NotImplementedError

    def configure(self, config):
        self.config = config

    def tools(self):
        return [Tool("bash", "d", {"type": "object"})]

    def parse(self, reply):
        return self.act(reply)

    def format(self, actions, outputs):
        return self.act(actions, outputs)

    def apply(self, change):
        return self.act(change)

    def resume(self, reply):
        return self.act(reply)

    def judge(self, action):
        return self.act(action)

    def query(self, change, request):
        return self.act(change, request)

    def head(self, status, headers):
        return self.act(status, headers)

    def feed(self, data):
        return self.act(data)

    def finish(self):
        return self.act()


def generated():
    modules = {}
    for name, records in RECORDS.items():
        module = modules[name] = ModuleType(name)
        for record, fields in records.items():
            setattr(module, record, make_dataclass(record, fields.split()))
    for name in ["wit_world", "wit_world.imports", "wit_world.exports", "wit_world.imports.host"]:
        modules[name] = ModuleType(name)
    for name, module in modules.items():
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(modules[parent], child, module)
    for interface in KINDS:
        setattr(modules["wit_world.exports"], interface, object)
    fake = modules["wit_world.imports.host"]
    fake.Level = Enum("Level", "TRACE DEBUG INFO WARN ERROR")
    fake.logged = []
    fake.log = lambda level, text: fake.logged.append((level.name, text))
    modules["componentize_py_types"] = ModuleType("componentize_py_types")
    modules["componentize_py_types"].Err = Err
    modules["plugin"] = ModuleType("plugin")
    return modules


class Boundary(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        modules = generated()
        decode = json.JSONDecoder.decode
        backend = host._send_log, host._send_render
        before = {name: sys.modules.get(name) for name in modules}
        sys.modules.update(modules)
        export(Everything)

        def restore():
            json.JSONDecoder.decode = decode
            host._send_log, host._send_render = backend
            sys.modules.pop("mswea_sdk.app", None)
            for name, module in before.items():
                if module is None:
                    del sys.modules[name]
                else:
                    sys.modules[name] = module

        cls.addClassCleanup(restore)
        cls.app = importlib.import_module("mswea_sdk.app")
        cls.wit = modules["wit_world.imports.types"]
        cls.host = modules["wit_world.imports.host"]

    def setUp(self):
        self.app.Plugin().configure("{}")
        self.plugin = self.app._instance
        # Tracebacks go to the host's log.
        self.errors = io.StringIO()
        self.enterContext(contextlib.redirect_stderr(self.errors))

    def act(self, result):
        def act(*given):
            self.given = given
            if isinstance(result, BaseException):
                raise result
            return result

        self.plugin.act = act

    def message(self, text, extra=None):
        return self.wit.Message("user", [self.wit.ContentPart_Text(text)], [], None, extra)

    def reply(self, text):
        return self.wit.Reply(self.message(text), "stop", None, "m", None, None)

    def fails(self, call, *given):
        with self.assertRaises(Err) as caught:
            call(*given)
        return caught.exception.value

    def test_the_descriptor(self):
        described = self.app.Plugin().describe()
        self.assertEqual((described.name, described.config_schema), ("every", '{"type":"object"}'))
        self.assertEqual((described.secrets, described.extra), (["KEY"], None))

    def test_configure(self):
        self.app.Plugin().configure('{"a": 1}')
        self.assertEqual(self.app._instance.config, {"a": 1})
        error = self.fails(self.app.Plugin().configure, "[" * 1000)
        self.assertEqual(error.code, "internal")

    def test_before_configure(self):
        self.app._instance = self.app._NotConfigured()
        error = self.fails(self.app.ActionParser().parse, self.reply("x"))
        self.assertIn("before `configure`", error.message)

    def test_outcomes(self):
        parse = self.app.ActionParser().parse
        self.act([Action("ls\ud800", "1", {"k": "\udfff"})])
        actions = parse(self.reply("x")).value
        self.assertEqual(actions, [self.wit.Action("ls\ufffd", "1", '{"k":"\ufffd"}')])
        self.assertEqual(self.given[0].message.text, "x")
        self.act(Problem("code", "words", {"n": 1}))
        problem = parse(self.reply("x")).value
        self.assertEqual((problem.code, problem.details, problem.extra), ("code", '{"n":1}', None))
        self.assertEqual(self.app.ActionParser().tools()[0].parameters, '{"type":"object"}')

    def test_whatever_goes_wrong_is_an_error(self):
        for result, code, words in [
            (ValueError("boom \ud800"), "internal", "ValueError: boom \ufffd, in test_app.py"),
            (SystemExit(3), "internal", "SystemExit: 3"),
            (RecursionError("deep"), "internal", "RecursionError"),
            (PluginError("mine", "a\ud800"), "mine", "a\ufffd"),
            (PluginError("mine", "words", {"x": object()}), "internal", "PluginError.extra"),
            (PluginError(3, "words"), "internal", "`PluginError.code` has to be a str, not int"),
            (None, "internal", "has to be a list, not NoneType"),
            ("ls", "internal", "has to be a list, not str"),
            (["ls"], "internal", "expected an Action, not str"),
            ([Action(7)], "internal", "`Action.command` has to be a str, not int"),
            ([Action("x", extra={"x": float("nan")})], "internal", "Action.extra"),
        ]:
            with self.subTest(words):
                self.act(result)
                error = self.fails(self.app.ActionParser().parse, self.reply("x"))
                self.assertEqual(error.code, code)
                self.assertIn(words, error.message)
        self.assertIn("Traceback", self.errors.getvalue())

    def test_messages_survive(self):
        wit = self.wit
        there = wit.Message(
            "assistant",
            [
                wit.ContentPart_Text("a"),
                wit.ContentPart_Image(wit.Image("data:x", "{}")),
                wit.ContentPart_Reasoning(wit.Reasoning("r", None)),
                wit.ContentPart_Opaque(wit.Opaque("f", "[1.0]", '{"a": 1.0}')),
            ],
            [wit.ToolCall("1", "bash", "\0{", '{ "k":1 }')],
            "2",
            '{"n": 1.0}',
        )
        self.assertEqual(self.app._message_out(self.app._message_in(there)), there)
        self.act([self.app._message_in(there)])
        action, output = wit.Action("x", None, None), wit.Output("o", 1, "", None)
        self.assertEqual(self.app.ObservationFormatter().format([action], [output]), [there])
        self.assertEqual(self.given[1][0].returncode, 1)

    def test_processors(self):
        apply = self.app.HistoryProcessor().apply
        change = self.wit.Change(0, [self.message("a")], None)
        self.act(Change(0, [Message("user", "b")], {"places": [0]}))
        self.assertEqual(apply(change).value.extra, '{"places":[0]}')
        self.act(Query([Message("user", "b")], "summary"))
        self.assertEqual(apply(change).value.purpose, "summary")
        for wrong in [None, Change(-1), Change(2**32), Change("0")]:
            self.act(wrong)
            self.assertEqual(self.fails(apply, change).code, "internal")

    def test_verdicts(self):
        judge = self.app.ActionPolicy().judge
        for verdict, name in [
            (Allow(), "Verdict_Allow"),
            (Deny("no", "code"), "Verdict_Deny"),
            (Ask("why"), "Verdict_Ask"),
            (Rewrite(Action("ls")), "Verdict_Rewrite"),
        ]:
            self.act(verdict)
            self.assertEqual(type(judge(self.wit.Action("x", None, None))).__name__, name)
        self.act(True)
        self.assertIn("Allow", self.fails(judge, self.wit.Action("x", None, None)).message)

    def test_adapters(self):
        adapter = self.app.ModelAdapter()
        models = sys.modules["wit_world.exports.model_adapter"]
        tool = self.wit.Tool("bash", "d", '{"type": "object"}', None)
        request = models.Request([tool], None)
        change = self.wit.Change(0, [], None)
        self.act(HttpRequest("POST", "http://h/", [("a", "b"), ("c", Secret("KEY"))], b"x"))
        sent = adapter.query(change, request).value
        self.assertEqual(type(sent.headers[1].value).__name__, "HeaderValue_Secret")
        self.assertEqual(self.given[1].tools[0].parameters, {"type": "object"})
        self.act(Reply(Message("assistant", "x"), usage=Usage(3)))
        self.assertEqual(adapter.finish().value.usage.input_tokens, 3)
        for result, class_ in [
            (ModelError("rate-limited", "wait", 5), "rate-limited"),
            (ModelError("rate-limited", "wait", -5), "bad-request"),
            (PluginError("x", "y"), "bad-request"),
            (KeyError("x"), "bad-request"),
            (Reply(Message("assistant", "x"), usage=Usage(-3)), "bad-request"),
            (HttpRequest("GET", "http://h/", body="text"), "bad-request"),
            (None, "bad-request"),
        ]:
            self.act(result)
            self.assertEqual(self.fails(adapter.query, change, request).class_, class_, result)

    def test_what_head_and_feed_raise_is_reported_by_finish(self):
        adapter = self.app.ModelAdapter()
        self.act([Delta("text", "a\ud800")])
        self.assertEqual(adapter.feed(b"x")[0].text, "a\ufffd")
        self.act(ValueError("in the middle"))
        self.assertEqual(adapter.feed(b"x"), [])
        self.act(Reply(Message("assistant", "x")))
        self.assertEqual(adapter.feed(b"x"), [])
        self.assertIn("in the middle", self.fails(adapter.finish).message)
        # A new `head` begins a new response.
        self.act(None)
        adapter.head(200, [])
        self.act(Reply(Message("assistant", "x")))
        self.assertEqual(adapter.finish().value.message.role, "assistant")

    def test_the_log(self):
        host.log("warn", "x\ud800")
        self.assertEqual(self.host.logged[-1], ("WARN", "x\ufffd"))

    def test_deep_json_is_an_error_wherever_it_is_read(self):
        for text in ["[" * 100_000, '{"a":' * 100_000]:
            self.assertRaises(ValueError, json.loads, text)
        self.assertEqual(json.loads("[[1]]"), [[1]])


if __name__ == "__main__":
    unittest.main()
