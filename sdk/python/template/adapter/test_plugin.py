import json
import unittest

from mswea_sdk import Change, Message, ModelError, Request, Secret, Tool, ToolCall
from mswea_sdk.testing import configure
from plugin import {{pascal_name}}


def answer(adapter, status, body):
    """Passes a response as the host does: with the body in pieces."""
    adapter.head(status, [("content-type", "application/json")])
    for place in range(0, len(body), 7):
        adapter.feed(body[place : place + 7])
    return adapter.finish()


class Query(unittest.TestCase):
    def setUp(self):
        self.adapter = configure({{pascal_name}}, {"model": "m", "api_key": "SOME_KEY"})

    def test_the_history_is_sent(self):
        tool = Tool("bash", "Runs a command", {"type": "object"})
        change = Change(0, [Message("system", "s"), Message("user", "t")])
        request = self.adapter.query(change, Request([tool]))
        self.assertEqual(request.url, "http://127.0.0.1:8000/v1/chat/completions")
        self.assertIn(("authorization", Secret("SOME_KEY", "Bearer ")), request.headers)
        body = json.loads(request.body)
        self.assertEqual([message["content"] for message in body["messages"]], ["s", "t"])
        self.assertEqual(body["tools"][0]["function"]["name"], "bash")

        # A later query has only the changed messages.
        call = ToolCall("1", "bash", "{}")
        later = [Message("assistant", "", [call]), Message.tool("1", "out")]
        body = json.loads(self.adapter.query(Change(2, later), Request()).body)
        self.assertEqual(len(body["messages"]), 4)
        self.assertEqual(body["messages"][3]["tool_call_id"], "1")

    def test_a_reply_is_read(self):
        call = {"id": "1", "type": "function", "function": {"name": "bash", "arguments": "{}"}}
        message = {"content": None, "tool_calls": [call]}
        body = {"choices": [{"message": message}], "usage": {"prompt_tokens": 3}}
        self.adapter.query(Change(0), Request())
        reply = answer(self.adapter, 200, json.dumps(body).encode())
        self.assertEqual(reply.message.tool_calls, [ToolCall("1", "bash", "{}")])
        self.assertEqual(reply.usage.input_tokens, 3)

    def test_what_is_no_reply_has_a_class(self):
        for status, body, class_ in [
            (401, b"no key", "authentication"),
            (429, b"", "rate-limited"),
            (503, b"", "overloaded"),
            (418, b"", "bad-request"),
            (200, b"", "malformed-response"),
            (200, b"[" * 10_000, "malformed-response"),
            (200, b'{"choices": []}', "malformed-response"),
            (200, b"\xff\xfe", "malformed-response"),
        ]:
            with self.assertRaises(ModelError) as caught:
                answer(self.adapter, status, body)
            self.assertEqual(caught.exception.class_, class_, body[:20])


if __name__ == "__main__":
    unittest.main()
