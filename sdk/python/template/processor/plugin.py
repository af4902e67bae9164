"""{{name}}: cuts long observations, except the latest."""

from mswea_sdk import Descriptor, SimpleProcessor, export


class {{pascal_name}}(SimpleProcessor):
    descriptor = Descriptor(
        name="{{name}}",
        version="0.1.0",
        summary="Cuts long observations, except the latest",
        config_schema={
            "type": "object",
            "properties": {
                "characters": {
                    "type": "integer",
                    "minimum": 0,
                    "default": 1000,
                    "description": "How many characters of an old observation stay",
                },
                "whole": {
                    "type": "integer",
                    "minimum": 0,
                    "default": 2,
                    "description": "How many of the latest observations stay whole",
                },
            },
            "additionalProperties": False,
        },
    )

    def configure(self, config):
        self.characters = config["characters"]
        self.whole = config["whole"]

    # Gets the whole history, and returns the messages for the model. The SDK finds the differences
    # to the last view.
    def process(self, history):
        observations = [message for message in history if is_observation(message)]
        for message in observations[: max(0, len(observations) - self.whole)]:
            text = message.text
            if len(text) > self.characters:
                left_out = len(text) - self.characters
                message.text = f"{text[: self.characters]}\n({left_out} characters left out)"
        return history


def is_observation(message):
    return message.role == "tool" or (message.role == "user" and "returncode" in message.extra)


export({{pascal_name}})
