"""{{name}}: denies commands that publish work, and asks about commands that delete it."""

import re

from mswea_sdk import Allow, Ask, Deny, Descriptor, PluginError, Policy, export


def patterns(default, description):
    return {
        "type": "array",
        "items": {"type": "string"},
        "default": default,
        "description": description,
    }


class {{pascal_name}}(Policy):
    descriptor = Descriptor(
        name="{{name}}",
        version="0.1.0",
        summary="Denies commands that publish work, and asks about commands that delete it",
        config_schema={
            "type": "object",
            "properties": {
                "deny": patterns([r"\bgit\s+push\b"], "Commands that match one of these are denied"),
                "ask": patterns(
                    [r"\brm\s+-\w*r"], "Before commands that match one of these the user is asked"
                ),
            },
            "additionalProperties": False,
        },
    )

    # The patterns are compiled here, once, so that an invalid pattern is an error at the start.
    def configure(self, config):
        self.deny = compiled(config, "deny")
        self.ask = compiled(config, "ask")

    def judge(self, action):
        for pattern in self.deny:
            if pattern.search(action.command):
                return Deny(f"`{pattern.pattern}` is not allowed here.", code="denied")
        for pattern in self.ask:
            if pattern.search(action.command):
                return Ask(f"it matches `{pattern.pattern}`", code="asked")
        return Allow()


def compiled(config, key):
    result = []
    for place, text in enumerate(config[key]):
        try:
            result.append(re.compile(text))
        except re.error as error:
            raise PluginError.invalid_config(
                f"`{text}` is not a regular expression: {error}; correct it or leave it out",
                pointer=f"/{key}/{place}",
            ) from None
    return result


export({{pascal_name}})
