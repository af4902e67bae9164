import assert from "node:assert/strict";
import { test } from "node:test";

import { Driver, checkFreshInstances } from "./mswea-sdk/testing.js";
import {{pascal_name}} from "./plugin.js";

const observation = (content) => ({ role: "user", content, extra: { returncode: 0 } });

test("old observations are cut", () => {
  const driver = new Driver({{pascal_name}}, { characters: 2, whole: 1 });
  const task = { role: "user", content: "the task stays whole" };
  const view = driver.apply({ start: 0, messages: [task, observation("abcdef"), observation("uvwxyz")] });
  assert.deepEqual(driver.texts(), ["the task stays whole", "ab\n(4 characters left out)", "uvwxyz"]);
  assert.equal(view[1].extra.returncode, 0);
});

test("a fresh instance returns the same view", () => {
  const changes = [
    { start: 0, messages: [{ role: "system", content: "s" }, observation("a".repeat(50))] },
    { start: 2, messages: [observation("b".repeat(50))] },
    { start: 3, messages: [{ role: "assistant", content: "c" }, observation("d".repeat(50))] },
    { start: 1, messages: [observation("e".repeat(50))] },
  ];
  checkFreshInstances({{pascal_name}}, changes, { characters: 3, whole: 1 });
});
