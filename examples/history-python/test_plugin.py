import random
import unittest

from mswea_sdk import Change, Image, Message, Text, ToolCall
from mswea_sdk.testing import Driver, check_fresh_instances
from plugin import SeenBefore

LONG = "FAILED test_a\n" * 20


def ran(command):
    return Message("assistant", "I run it.", extra={"actions": [{"command": command}]})


def observation(text, **extra):
    return Message("user", text, extra={"returncode": 0, **extra})


class Process(unittest.TestCase):
    def shown(self, *messages):
        return [message.text for message in Driver(SeenBefore).apply(Change(0, list(messages)))]

    def test_a_repetition_points_to_the_first(self):
        shown = self.shown(
            Message("user", LONG),  # the task is not an observation
            ran("make test"),
            observation(LONG),
            ran("make test\n# again"),
            observation(LONG),
            observation(LONG + "!"),
            observation(LONG),
        )
        note = "(the same output as that of observation 1, after `make test`)"
        self.assertEqual(shown[2::2], [LONG, note, note])
        self.assertEqual((shown[0], shown[5]), (LONG, LONG + "!"))

    def test_short_and_kept_outputs_are_shown_each_time(self):
        for given in [observation("ok"), observation(LONG, tags=["keep_output"])]:
            self.assertEqual(self.shown(given, given), [given.text] * 2)

    def test_a_command_that_is_not_known_is_left_out(self):
        for extra in [{}, {"actions": 7}, {"actions": []}, {"actions": [7]}, {"actions": [{}]}]:
            shown = self.shown(Message("assistant", "x", extra=extra), observation(LONG), observation(LONG))
            self.assertEqual(shown[2], "(the same output as that of observation 1)")

    def test_everything_but_the_text_stays(self):
        call = ToolCall("1", "bash", "{}")
        first = Message.tool("1", LONG)
        again = Message("tool", [Text(LONG), Image("data:x")], tool_call_id="2", extra={"k": 1})
        messages = [Message("assistant", "", [call]), first, Message("assistant", "", [call]), again]
        shown = Driver(SeenBefore).apply(Change(0, messages))[3]
        self.assertEqual((shown.tool_call_id, shown.extra), ("2", {"k": 1}))
        self.assertEqual(shown.content[1], Image("data:x"))

    def test_old_messages_never_change_and_fresh_instances_agree(self):
        chance = random.Random(3)
        for _ in range(50):
            changes, length = [], 0
            for _ in range(6):
                text = chance.choice([LONG, LONG + "!", "ok"])
                changes.append(Change(length, [ran(chance.choice("ab")), observation(text)]))
                length += 2
            check_fresh_instances(SeenBefore, changes)
            driver = Driver(SeenBefore)
            for change in changes:
                driver.apply(change)
                self.assertEqual(driver.last.start, change.start)

    def test_hostile_texts(self):
        for text in ["\0" * 300, "\ud800" * 300, "[" * 10_000]:
            self.assertEqual(len(self.shown(observation(text), observation(text))), 2)


if __name__ == "__main__":
    unittest.main()
