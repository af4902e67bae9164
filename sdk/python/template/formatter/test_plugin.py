import unittest

from mswea_sdk import Action, Message, Output
from mswea_sdk.testing import configure
from plugin import {{pascal_name}}


class Format(unittest.TestCase):
    def test_the_end_of_an_output_is_shown(self):
        formatter = configure({{pascal_name}}, {"lines": 2})
        for output, expected in [
            (Output("a\nb\n"), "a\nb\n(exit code 0)"),
            (Output("a\nb\nc", 1), "(1 lines left out)\nb\nc\n(exit code 1)"),
            (Output("", -1, "timed out"), "\n(timed out)\n(exit code -1)"),
        ]:
            messages = formatter.format([Action("x")], [output])
            self.assertEqual(messages, [Message("user", expected)])

    def test_every_tool_call_is_answered(self):
        formatter = configure({{pascal_name}})
        actions = [Action("a", "call_1"), Action("b", "call_2"), Action("c")]
        messages = formatter.format(actions, [Output("done")])
        self.assertEqual([message.tool_call_id for message in messages], ["call_1", "call_2"])
        self.assertIn("not executed", messages[1].text)


if __name__ == "__main__":
    unittest.main()
