// An observation formatter: shows the first and the last lines of an output, numbered, and a command that
// prints the rest.
//
//     exit code 0, 1200 lines; shown are 1-3 and 1199-1200
//        1  a
//        2  b
//        3  c
//     ...
//     1199  y
//     1200  z
//     To see more, ask for lines: `COMMAND | sed -n '4,43p'`.

import { Formatter } from "./mswea-sdk/index.js";

const number = (fallback, minimum, description) => ({ type: "integer", default: fallback, minimum, description });

export default class HeadTail extends Formatter {
  static descriptor = {
    name: "head-tail",
    version: "0.1.0",
    summary: "Shows the first and the last lines of an output, numbered, and how to see the rest",
    configSchema: {
      type: "object",
      properties: {
        head: number(60, 0, "How many lines are shown from the beginning"),
        tail: number(60, 1, "How many lines are shown from the end"),
        width: number(400, 20, "How many characters are shown of a line"),
      },
      additionalProperties: false,
    },
  };

  configure({ head, tail, width }) {
    this.head = head;
    this.tail = tail;
    this.width = width;
  }

  observe(_action, output) {
    const lines = linesOf(output.output);
    const whole = lines.length <= this.head + this.tail;
    const from = whole ? 0 : this.head;
    const to = whole ? 0 : lines.length - this.tail;
    const shown = [...lines.keys()].slice(0, whole ? lines.length : this.head);
    const digits = String(lines.length).length;
    const line = (index) => `${String(index + 1).padStart(digits)}  ${this.cut(lines[index])}`;

    const text = [this.heading(output, lines.length, from, to), ...shown.map(line)];
    if (!whole) {
      text.push("...");
      for (let index = to; index < lines.length; index++) text.push(line(index));
      const last = Math.min(from + Math.max(this.head, this.tail), to);
      text.push(`To see more, ask for lines: \`COMMAND | sed -n '${from + 1},${last}p'\`.`);
    }
    return text.join("\n");
  }

  heading(output, count, from, to) {
    const parts = [
      `exit code ${output.returncode}`,
      count === 0 ? "no output" : count === 1 ? "1 line" : `${count} lines`,
    ];
    // Of a huge output the host keeps only the two ends. Line numbers after the gap are then too small.
    const lost = output.extra?.elided_bytes;
    if (typeof lost === "number" && lost > 0) parts.push(`${lost} bytes in the middle were not kept`);
    const shown = from === 0 ? "the last" : `1-${from} and ${to + 1}-${count}`;
    const heading = parts.join(", ") + (to > 0 ? `; shown are ${shown}` : "");
    return output.exceptionInfo === "" ? heading : `${heading}\n${output.exceptionInfo}`;
  }

  /** The line, cut to the configured width. */
  cut(line) {
    if (line.length <= this.width) return line;
    return `${line.slice(0, this.width)} ... (${line.length - this.width} more characters)`;
  }
}

/** The lines of a text. A line end at the end of the text begins no further line. */
function linesOf(text) {
  if (text === "") return [];
  const lines = text.split("\n");
  if (lines[lines.length - 1] === "") lines.pop();
  return lines.map((line) => (line.endsWith("\r") ? line.slice(0, -1) : line));
}
