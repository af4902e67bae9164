import assert from "node:assert/strict";
import { test } from "node:test";

import { configure } from "./mswea-sdk/testing.js";
import {{pascal_name}} from "./plugin.js";

test("commands are judged", () => {
  const policy = configure({{pascal_name}});
  for (const [command, expected] of [
    ["ls -la", "allow"],
    ["git push origin main", "deny"],
    ["cd x && rm -rf build", "ask"],
    ["rm file", "allow"],
    ["", "allow"],
  ]) {
    assert.equal(policy.judge({ command }).type, expected, command);
  }
});

test("the message names an invalid pattern", () => {
  assert.throws(
    () => configure({{pascal_name}}, { deny: ["ok", "("] }),
    (error) => error.code === "invalid-config" && error.extra.pointer === "/deny/1",
  );
});
