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
          description: "What a line begins with that is a command",
        },
      },
      additionalProperties: false,
    },
  };

  configure(config) {
    this.prompt = config.prompt;
  }

  parse(reply) {
    // A regular expression would do it in one go, and take ten times as long in QuickJS.
    const lines = textOf(reply.message)
      .split("\n")
      .filter((line) => line.startsWith(this.prompt));
    if (lines.length === 0) {
      // For the model to read: it is asked again. An error would be for the user.
      return problem("no-command", `Begin a line with \`${this.prompt}\` to run it.`);
    }
    return lines.map((line) => ({ command: line.slice(this.prompt.length).trimEnd() }));
  }
}
