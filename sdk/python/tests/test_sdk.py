"""Tests of the SDK without a component, as authors' unit tests use it. `test_app.py` tests `app.py`
with replacements of the generated modules."""

import json
import random
import unittest

from mswea_sdk import (
    Action,
    Change,
    Descriptor,
    Formatter,
    Message,
    ModelError,
    Opaque,
    Output,
    Parser,
    PluginError,
    Processor,
    Query,
    Reasoning,
    Request,
    SimpleAdapter,
    SimpleProcessor,
    Text,
    ToolCall,
    dump_json,
    export,
    host,
    parse_json,
)
from mswea_sdk.diffing import freeze, thaw
from mswea_sdk.extra import extra_text
from mswea_sdk.json_text import MAX_DEPTH, clean
from mswea_sdk.testing import (
    Driver,
    check_fresh_instances,
    configure,
    reply_calls,
    set_render,
    take_log,
)


class JsonText(unittest.TestCase):
    def test_depth(self):
        deep = "[" * MAX_DEPTH + "]" * MAX_DEPTH
        for text, good in [
            (deep, True),
            ("[" + deep + "]", False),
            ("[" * 100_000, False),
            ('{"a":' * 100_000, False),
            (json.dumps("[" * 1000), True),
            ('["\\"' + "[" * 1000 + '", 1]', True),
            ('["\\\\", ' + "[" * MAX_DEPTH + "]" * MAX_DEPTH + "]", False),
            (json.dumps([[[]]] * 1000), True),
            ('"' + "[" * 1000, False),
        ]:
            with self.subTest(text[:20]):
                if good:
                    parse_json(text)
                else:
                    self.assertRaises(ValueError, parse_json, text)

    def test_what_goes_out_is_utf8(self):
        for text, expected in [
            ("plain", "plain"),
            ("\N{SNOWMAN}\0", "\N{SNOWMAN}\0"),
            ("a\ud800b\udfff", "a\ufffdb\ufffd"),
            ("\ud83d\ude00", "\N{GRINNING FACE}"),
        ]:
            self.assertEqual(clean(text), expected)
        self.assertEqual(dump_json({"a": json.loads('"\\ud800"')}), '{"a":"\ufffd"}')
        self.assertRaises(ValueError, dump_json, float("nan"))


class Extra(unittest.TestCase):
    def test_what_is_not_read_stays_as_it_is(self):
        odd = '{ "n": 1.0, "big": 123456789012345678901234567890, "u": "\\u00e9" }'
        message = Message("user", "x", extra=odd)
        self.assertEqual(extra_text(message), odd)
        self.assertEqual(extra_text(thaw(freeze(message))), odd)
        self.assertEqual(message.extra["big"], 123456789012345678901234567890)
        message.extra["n"] = 2
        self.assertEqual(json.loads(extra_text(message))["n"], 2)

    def test_none_and_empty_are_none(self):
        self.assertIsNone(extra_text(Action("x")))
        self.assertIsNone(extra_text(Action("x", extra=None)))
        self.assertEqual(Action("x", extra=None), Action("x"))

    def test_what_is_no_json_is_named(self):
        for extra in [[1], {"x": object()}, {"x": float("inf")}]:
            with self.assertRaisesRegex(TypeError, "Action.extra"):
                extra_text(Action("x", extra=extra))


class Messages(unittest.TestCase):
    def test_text(self):
        message = Message("assistant", [Reasoning("r"), Text("a"), Opaque("f", "{}"), Text("b")])
        self.assertEqual(message.text, "ab")
        message.text = "c"
        self.assertEqual(message.content, [Text("c"), Reasoning("r"), Opaque("f", "{}")])

    def test_frozen_is_by_value(self):
        message = Message("assistant", "a", [ToolCall("1", "bash", "{}")], extra={"k": [1]})
        frozen = freeze(message)
        copy = thaw(frozen)
        self.assertEqual(copy, message)
        copy.content[0].text = "b"
        copy.extra["k"].append(2)
        copy.tool_calls[0].id = "2"
        self.assertEqual(thaw(frozen), message)

    def test_a_part_of_another_type_is_named(self):
        with self.assertRaisesRegex(TypeError, "str"):
            freeze(Message("user", ["text"]))

    def test_arguments(self):
        for arguments, good in [('{"a": 1}', True), ("[]", False), ("", False), ("[" * 9999, False)]:
            call = ToolCall("1", "bash", arguments)
            if good:
                self.assertEqual(call.parse_arguments(), {"a": 1})
            else:
                self.assertRaises(ValueError, call.parse_arguments)
        self.assertEqual(reply_calls(("1", "bash", "{}")).message.tool_calls[0].name, "bash")


class Marks(SimpleProcessor):
    """Changes its messages in place, leaves some out, and marks old ones."""

    descriptor = Descriptor("marks", "0.1.0", "For the tests")

    def process(self, history):
        for place, message in enumerate(history):
            if message.text.startswith("old") and place < len(history) - 2:
                message.text = message.text.upper()
                message.extra["marked"] = True
        return [message for message in history if message.text != "drop"]


class Diffs(unittest.TestCase):
    def test_only_what_differs_goes_back(self):
        driver = Driver(Marks)
        say = [Message("user", text) for text in ["a", "b", "c"]]
        for change, start, sent, places in [
            (Change(0, say), 0, 3, None),
            (Change(3, [Message("user", "old")]), 3, 1, None),
            (Change(4, []), 4, 0, None),
            (Change(4, [Message("user", "d")]), 4, 1, None),
            # `old` is marked; the messages in between are not returned.
            (Change(5, [Message("user", "e"), Message("user", "f")]), 3, 3, [3, 5, 6]),
            (Change(7, [Message("user", "drop")]), 7, 0, None),
            (Change(2, []), 2, 0, None),
            (Change(0, say[:1]), 0, 1, None),
        ]:
            driver.apply(change)
            self.assertEqual((driver.last.start, len(driver.last.messages)), (start, sent))
            self.assertEqual(driver.last.extra.get("places"), places)

    def test_places(self):
        driver = Driver(Marks)
        driver.apply(Change(0, [Message("user", t) for t in ["a", "old", "b", "c", "d"][:3]]))
        view = driver.apply(Change(3, [Message("user", "c"), Message("user", "d")]))
        self.assertEqual([m.text for m in view], ["a", "OLD", "b", "c", "d"])
        self.assertEqual(driver.last.extra, {"places": [1, 3, 4]})

    def test_random_splices_equal_the_whole(self):
        chance = random.Random(7)
        for _ in range(200):
            history, changes = [], []
            for _ in range(chance.randrange(1, 8)):
                start = chance.randrange(len(history) + 1)
                words = chance.choices(["old", "drop", "x", "old y"], k=chance.randrange(4))
                changes.append(Change(start, [Message("user", word) for word in words]))
                changes[-1].apply_to(history)
            check_fresh_instances(Marks, changes)

    def test_a_change_beyond_the_end_is_refused(self):
        with self.assertRaises(PluginError) as caught:
            Driver(Marks).apply(Change(1, []))
        self.assertEqual(caught.exception.code, "invalid-input")


class Asks(Processor):
    descriptor = Descriptor("asks", "0.1.0", "For the tests")

    def apply(self, change):
        return Query(change.messages, "summary")

    def resume(self, reply):
        return Change(0, [reply.message])


class Kinds(unittest.TestCase):
    def test_a_processor_asks(self):
        def answer(query):
            self.assertEqual(query.purpose, "summary")
            return reply_calls()

        view = Driver(Asks, answer=answer).apply(Change(0, [Message("user", "x")]))
        self.assertEqual(len(view), 1)

    def test_unexecuted_tool_calls_are_answered(self):
        class Plain(Formatter):
            descriptor = Descriptor("plain", "0.1.0", "x")

            def observe(self, action, output):
                return output.output or output.exception_info

        actions = [Action("a"), Action("b", "1"), Action("c"), Action("d", "2")]
        messages = configure(Plain).format(actions, [Output("one")])
        self.assertEqual(
            [(m.role, m.tool_call_id, m.text) for m in messages],
            [
                ("user", None, "one"),
                ("tool", "1", "action was not executed"),
                ("tool", "2", "action was not executed"),
            ],
        )

    def test_an_adapter_keeps_history_and_body(self):
        class Echo(SimpleAdapter):
            descriptor = Descriptor("echo", "0.1.0", "x")

            def send(self, history, tools):
                self.seen = [message.text for message in history]
                return None

            def receive(self, response):
                return response

        echo = configure(Echo)
        echo.query(Change(0, [Message("user", "a"), Message("user", "b")]), Request())
        echo.query(Change(1, [Message("user", "c")]), Request())
        self.assertEqual(echo.seen, ["a", "c"])
        echo.head(500, [])
        echo.feed(b"lost")
        # A repeated request begins a new response.
        echo.head(200, [("x", "y")])
        echo.feed(b"\xe2\x98")
        echo.feed(b"\x83")
        response = echo.finish()
        self.assertEqual((response.status, response.headers, response.body), (200, {"x": "y"}, "☃".encode()))
        self.assertRaises(ModelError, echo.finish)
        self.assertRaises(ModelError, echo.query, Change(9, []), Request())

    def test_export_takes_plugins_only(self):
        class Nameless(Parser):
            pass

        for wrong, words in [(int, "takes a class"), (3, "takes a class"), (Nameless, "descriptor")]:
            with self.assertRaisesRegex(TypeError, words):
                export(wrong)
        self.assertIs(export(Marks), Marks)


class Host(unittest.TestCase):
    def test_doubles(self):
        take_log()
        host.log("warn", "a\ud800")
        host.log("no such level", 7)
        self.assertEqual(take_log(), [("warn", "a\ufffd"), ("info", "7")])
        self.assertRaises(PluginError, host.render, "{{ x }}", {})
        set_render(lambda template, vars: template + json.dumps(vars))
        self.addCleanup(set_render, None)
        self.assertEqual(host.render("t", {"x": 1}), 't{"x": 1}')


if __name__ == "__main__":
    unittest.main()
