import assert from "node:assert/strict";
import { test } from "node:test";

import { configure } from "./mswea-sdk/testing.js";
import {{pascal_name}} from "./plugin.js";

const output = (text, returncode = 0, exceptionInfo = "") => ({
  output: text,
  returncode,
  exceptionInfo,
  extra: {},
});

test("the end of an output is shown", () => {
  const formatter = configure({{pascal_name}}, { lines: 2 });
  for (const [given, expected] of [
    [output("a\nb\n"), "a\nb\n(exit code 0)"],
    [output("a\nb\nc", 1), "(1 lines left out)\nb\nc\n(exit code 1)"],
    [output("", -1, "timed out"), "\n(timed out)\n(exit code -1)"],
  ]) {
    const messages = formatter.format([{ command: "x" }], [given]);
    assert.deepEqual(messages, [{ role: "user", content: expected }]);
  }
});

test("every tool call is answered", () => {
  const formatter = configure({{pascal_name}});
  const actions = [
    { command: "a", toolCallId: "call_1" },
    { command: "b", toolCallId: "call_2" },
    { command: "c" },
  ];
  const messages = formatter.format(actions, [output("done")]);
  assert.deepEqual(messages.map((message) => message.toolCallId), ["call_1", "call_2"]);
  assert.match(messages[1].content, /not executed/);
});
