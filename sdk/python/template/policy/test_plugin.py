import unittest

from mswea_sdk import Action, Allow, Ask, Deny, PluginError
from mswea_sdk.testing import configure
from plugin import {{pascal_name}}


class Judge(unittest.TestCase):
    def test_commands_are_judged(self):
        policy = configure({{pascal_name}})
        for command, expected in [
            ("ls -la", Allow),
            ("git push origin main", Deny),
            ("cd x && rm -rf build", Ask),
            ("rm file", Allow),
            ("", Allow),
        ]:
            self.assertIs(type(policy.judge(Action(command))), expected, command)

    def test_a_bad_pattern_is_named(self):
        with self.assertRaises(PluginError) as caught:
            configure({{pascal_name}}, {"deny": ["ok", "("]})
        self.assertEqual(caught.exception.code, "invalid-config")
        self.assertEqual(caught.exception.extra, {"pointer": "/deny/1"})


if __name__ == "__main__":
    unittest.main()
