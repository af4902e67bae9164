"""{{name}}: shows the last lines of an output, and the exit code."""

from mswea_sdk import Descriptor, Formatter, export


class {{pascal_name}}(Formatter):
    descriptor = Descriptor(
        name="{{name}}",
        version="0.1.0",
        summary="Shows the last lines of an output",
        config_schema={
            "type": "object",
            "properties": {
                "lines": {
                    "type": "integer",
                    "minimum": 1,
                    "default": 100,
                    "description": "How many lines are shown",
                }
            },
            "additionalProperties": False,
        },
    )

    def configure(self, config):
        self.lines = config["lines"]

    # `format` makes messages of this text, one for each output and each tool call.
    def observe(self, action, output):
        lines = output.output.splitlines()
        left_out = max(0, len(lines) - self.lines)
        text = "\n".join(lines[left_out:])
        if left_out:
            text = f"({left_out} lines left out)\n{text}"
        if output.exception_info:
            text += f"\n({output.exception_info})"
        return f"{text}\n(exit code {output.returncode})"


export({{pascal_name}})
