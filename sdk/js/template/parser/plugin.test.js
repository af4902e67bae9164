import assert from "node:assert/strict";
import { test } from "node:test";

import { commands, configure, replyText } from "./mswea-sdk/testing.js";
import {{pascal_name}} from "./plugin.js";

test("lines that begin with the prompt are commands", () => {
  const parser = configure({{pascal_name}});
  const none = "Begin a line with `$ ` to run it.";
  for (const [text, expected] of [
    ["$ ls", ["ls"]],
    ["I look.\n$ ls -la\nThen:\r\n$ pwd\r\n", ["ls -la", "pwd"]],
    [" $ ls", none],
    ["", none],
    ["$ echo \0\u2603", ["echo \0\u2603"]],
  ]) {
    assert.deepEqual(commands(parser, replyText(text)), expected, text);
  }
});

test("the prompt is configured", () => {
  const parser = configure({{pascal_name}}, { prompt: "> " });
  assert.deepEqual(commands(parser, replyText("$ ls\n> pwd")), ["pwd"]);
});
