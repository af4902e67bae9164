import assert from "node:assert/strict";
import { test } from "node:test";

import { configure, guest } from "./mswea-sdk/testing.js";
import HeadTail from "./plugin.js";

const output = (text, more = {}) => ({ output: text, returncode: 0, exceptionInfo: "", extra: {}, ...more });
const count = (from, to) => Array.from({ length: to - from + 1 }, (_, index) => `line ${from + index}\n`).join("");

function observe(given, config = { head: 2, tail: 2 }) {
  return configure(HeadTail, config).observe({ command: "x" }, given);
}

test("a short output is shown whole", () => {
  for (const [text, expected] of [
    ["", "exit code 0, no output"],
    ["a", "exit code 0, 1 line\n1  a"],
    ["a\r\n\nc\n", "exit code 0, 3 lines\n1  a\n2  \n3  c"],
    [count(1, 4), "exit code 0, 4 lines\n1  line 1\n2  line 2\n3  line 3\n4  line 4"],
  ]) {
    assert.equal(observe(output(text)), expected);
  }
});

test("of a long output the ends are shown, and a command for the rest", () => {
  assert.equal(
    observe(output(count(1, 12))),
    [
      "exit code 0, 12 lines; shown are 1-2 and 11-12",
      " 1  line 1",
      " 2  line 2",
      "...",
      "11  line 11",
      "12  line 12",
      "To see more, ask for lines: `COMMAND | sed -n '3,4p'`.",
    ].join("\n"),
  );
  const tail = observe(output(count(1, 3)), { head: 0, tail: 1 });
  assert.equal(
    tail,
    "exit code 0, 3 lines; shown are the last\n...\n3  line 3\nTo see more, ask for lines: `COMMAND | sed -n '1,1p'`.",
  );
});

test("errors and missing bytes are in the heading", () => {
  const given = output("", { returncode: -1, exceptionInfo: "timed out after 30 s" });
  assert.equal(observe(given), "exit code -1, no output\ntimed out after 30 s");
  const lost = output("a\nb", { extra: { elided_bytes: 7 } });
  assert.match(observe(lost), /^exit code 0, 2 lines, 7 bytes in the middle were not kept\n/);
});

test("a long line is cut", () => {
  const text = observe(output("x".repeat(30)), { width: 20 });
  assert.ok(text.endsWith(`1  ${"x".repeat(20)} ... (10 more characters)`), text);
});

test("every tool call gets a result, also with unusual outputs", () => {
  const { observationFormatter } = guest(HeadTail);
  const actions = [{ command: "a", toolCallId: "1" }, { command: "b", toolCallId: "2" }];
  for (const text of ["\0", "\ud800", "[".repeat(100_000), "\n".repeat(100_000), "\u{1f600}".repeat(1000)]) {
    const messages = observationFormatter.format(actions, [{ ...output(text), extra: null }]);
    assert.deepEqual(messages.map((message) => message.toolCallId), ["1", "2"]);
    assert.ok(messages[0].content[0].val.isWellFormed());
  }
});
