"""A history processor that shows a repeated output only once.

Agents run the same test and list the same folder many times. The first output stays as it is; each
repetition becomes a note that refers to it. Old messages never change, so a provider's prompt cache stays
valid.
"""

from mswea_sdk import Descriptor, SimpleProcessor, export


class SeenBefore(SimpleProcessor):
    descriptor = Descriptor(
        name="seen-before",
        version="0.1.0",
        summary="Shows a repeated output once, and then a note that points to it",
        config_schema={
            "type": "object",
            "properties": {
                "characters": {
                    "type": "integer",
                    "minimum": 1,
                    "default": 200,
                    "description": "Outputs shorter than this are shown each time",
                }
            },
            "additionalProperties": False,
        },
    )

    def configure(self, config):
        self.characters = config["characters"]

    def process(self, history):
        # From the text of an observation to its number and its command.
        first = {}
        number = 0
        command = ""
        for message in history:
            if message.role == "assistant":
                command = asked(message)
            elif is_observation(message):
                number += 1
                text = message.text
                if len(text) < self.characters or "keep_output" in tags(message):
                    continue
                if text in first:
                    message.text = note(*first[text])
                else:
                    first[text] = (number, command)
        return history


def note(number, command):
    words = f"(the same output as that of observation {number}"
    if command:
        words += f", after `{command}`"
    return words + ")"


def asked(message):
    """The beginning of the command of an assistant message; empty without exactly one command."""
    actions = message.extra.get("actions")
    if isinstance(actions, list) and len(actions) == 1 and isinstance(actions[0], dict):
        command = actions[0].get("command")
        if isinstance(command, str):
            line = command.strip().split("\n", 1)[0]
            return line if len(line) <= 60 else line[:60] + "..."
    return ""


def tags(message):
    value = message.extra.get("tags")
    return value if isinstance(value, list) else []


def is_observation(message):
    return message.role == "tool" or (message.role == "user" and "returncode" in message.extra)


export(SeenBefore)
