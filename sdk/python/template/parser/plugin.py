"""{{name}}: runs the lines of a reply that begin with a prompt, `$ ` by default."""

from mswea_sdk import Action, Descriptor, Parser, Problem, export


class {{pascal_name}}(Parser):
    descriptor = Descriptor(
        name="{{name}}",
        version="0.1.0",
        summary="Runs the lines that begin with a prompt",
        config_schema={
            "type": "object",
            "properties": {
                "prompt": {
                    "type": "string",
                    "minLength": 1,
                    "default": "$ ",
                    "description": "The beginning of a line with a command",
                }
            },
            "additionalProperties": False,
        },
    )

    def configure(self, config):
        self.prompt = config["prompt"]

    def parse(self, reply):
        lines = [line for line in reply.message.text.splitlines() if line.startswith(self.prompt)]
        if not lines:
            # The model gets this message and is queried again. An exception would be shown to the
            # user.
            return Problem("no-command", f"Begin a line with `{self.prompt}` to run it.")
        return [Action(line.removeprefix(self.prompt)) for line in lines]


export({{pascal_name}})
