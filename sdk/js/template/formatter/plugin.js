// {{name}}: shows the last lines of an output, and the exit code.

import { Formatter } from "./mswea-sdk/index.js";

export default class {{pascal_name}} extends Formatter {
  static descriptor = {
    name: "{{name}}",
    version: "0.1.0",
    summary: "Shows the last lines of an output",
    configSchema: {
      type: "object",
      properties: {
        lines: { type: "integer", minimum: 1, default: 100, description: "How many lines are shown" },
      },
      additionalProperties: false,
    },
  };

  configure(config) {
    this.lines = config.lines;
  }

  // `format` makes messages of this text, one for each output and each tool call.
  observe(_action, output) {
    const lines = output.output.replace(/\n$/, "").split("\n");
    const leftOut = Math.max(0, lines.length - this.lines);
    const shown = lines.slice(leftOut);
    if (leftOut > 0) shown.unshift(`(${leftOut} lines left out)`);
    if (output.exceptionInfo !== "") shown.push(`(${output.exceptionInfo})`);
    shown.push(`(exit code ${output.returncode})`);
    return shown.join("\n");
  }
}
