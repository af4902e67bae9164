// {{name}}: runs the lines of a reply that begin with a prompt, `$ ` by default.

import { Parser, problem, textOf } from "./mswea-sdk/index.js";

export default class {{pascal_name}} extends Parser {
  static descriptor = {
    name: "{{name}}",
    version: "0.1.0",
    summary: "Runs the lines that begin with a prompt",
    configSchema: {
      type: "object",
      properties: {
        prompt: {
          type: "string",
          minLength: 1,
          default: "$ ",
          description: "The beginning of a line with a command",
        },
      },
      additionalProperties: false,
    },
  };

  configure(config) {
    this.prompt = config.prompt;
  }

  parse(reply) {
    // One regular expression would be enough, but would take ten times as long in QuickJS.
    const lines = textOf(reply.message)
      .split("\n")
      .filter((line) => line.startsWith(this.prompt));
    if (lines.length === 0) {
      // The model gets this message and is queried again. An exception would be shown to the user.
      return problem("no-command", `Begin a line with \`${this.prompt}\` to run it.`);
    }
    return lines.map((line) => ({ command: line.slice(this.prompt.length).trimEnd() }));
  }
}
