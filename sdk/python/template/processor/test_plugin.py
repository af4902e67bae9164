import unittest

from mswea_sdk import Change, Message
from mswea_sdk.testing import Driver, check_fresh_instances
from plugin import {{pascal_name}}


def observation(text):
    return Message("user", text, extra={"returncode": 0})


class Process(unittest.TestCase):
    def test_old_observations_are_cut(self):
        driver = Driver({{pascal_name}}, {"characters": 2, "whole": 1})
        task = Message("user", "the task stays whole")
        view = driver.apply(Change(0, [task, observation("abcdef"), observation("uvwxyz")]))
        self.assertEqual(
            [message.text for message in view],
            ["the task stays whole", "ab\n(4 characters left out)", "uvwxyz"],
        )
        self.assertEqual(view[1].extra, {"returncode": 0})

    def test_a_fresh_instance_sees_the_same(self):
        changes = [
            Change(0, [Message("system", "s"), observation("a" * 50)]),
            Change(2, [observation("b" * 50)]),
            Change(3, [Message("assistant", "c"), observation("d" * 50)]),
            Change(1, [observation("e" * 50)]),
        ]
        check_fresh_instances({{pascal_name}}, changes, {"characters": 3, "whole": 1})


if __name__ == "__main__":
    unittest.main()
