import unittest

from mswea_sdk.testing import commands, configure, reply_text
from plugin import {{pascal_name}}


class Parse(unittest.TestCase):
    def test_lines_that_begin_with_the_prompt_are_commands(self):
        parser = configure({{pascal_name}})
        for text, expected in [
            ("$ ls", ["ls"]),
            ("I look.\n$ ls -la\nThen:\n$ pwd\n", ["ls -la", "pwd"]),
            (" $ ls", "Begin a line with `$ ` to run it."),
            ("", "Begin a line with `$ ` to run it."),
            ("$ echo \0\N{SNOWMAN}", ["echo \0\N{SNOWMAN}"]),
        ]:
            self.assertEqual(commands(parser, reply_text(text)), expected, text)

    def test_the_prompt_is_configured(self):
        parser = configure({{pascal_name}}, {"prompt": "> "})
        self.assertEqual(commands(parser, reply_text("$ ls\n> pwd")), ["pwd"])


if __name__ == "__main__":
    unittest.main()
