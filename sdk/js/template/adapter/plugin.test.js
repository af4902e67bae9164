import assert from "node:assert/strict";
import { test } from "node:test";

import { encodeUtf8 } from "./mswea-sdk/index.js";
import { configure } from "./mswea-sdk/testing.js";
import {{pascal_name}} from "./plugin.js";

const adapter = () => configure({{pascal_name}}, { model: "m", api_key: "SOME_KEY" });
const message = (role, content) => ({ role, content, toolCalls: [], extra: {} });

/** Passes a response as the host does: with the body in pieces. */
function answer(to, status, body) {
  const bytes = typeof body === "string" ? encodeUtf8(body) : body;
  to.head(status, [["content-type", "application/json"]]);
  for (let at = 0; at < bytes.length; at += 7) to.feed(bytes.subarray(at, at + 7));
  return to.finish();
}

test("the history is sent", () => {
  const it = adapter();
  const tools = [{ name: "bash", description: "Runs a command", parameters: { type: "object" } }];
  const messages = [message("system", "s"), message("user", "t")];
  const request = it.query({ start: 0, messages }, { tools });
  assert.equal(request.url, "http://127.0.0.1:8000/v1/chat/completions");
  assert.deepEqual(request.headers.authorization, { secret: "SOME_KEY", prefix: "Bearer " });
  const body = JSON.parse(request.body);
  assert.deepEqual(body.messages.map(({ content }) => content), ["s", "t"]);
  assert.equal(body.tools[0].function.name, "bash");

  // A later query has only the changed messages.
  const call = { id: "1", name: "bash", arguments: "{}" };
  const later = [
    { ...message("assistant", ""), toolCalls: [call] },
    { ...message("tool", "out"), toolCallId: "1" },
  ];
  const second = JSON.parse(it.query({ start: 2, messages: later }, { tools: [] }).body);
  assert.equal(second.messages.length, 4);
  assert.equal(second.messages[3].tool_call_id, "1");
});

test("a reply is read", () => {
  const it = adapter();
  it.query({ start: 0, messages: [] }, { tools: [] });
  const call = { id: "1", type: "function", function: { name: "bash", arguments: '{"a": "\u00e9"}' } };
  const body = { choices: [{ message: { content: null, tool_calls: [call] } }], usage: { prompt_tokens: 3 } };
  const reply = answer(it, 200, JSON.stringify(body));
  assert.deepEqual(reply.message.toolCalls, [{ id: "1", name: "bash", arguments: '{"a": "\u00e9"}' }]);
  assert.equal(reply.usage.inputTokens, 3);
});

test("an error has a class", () => {
  for (const [status, body, expected] of [
    [401, "no key", "authentication"],
    [429, "", "rate-limited"],
    [503, "", "overloaded"],
    [418, "", "bad-request"],
    [200, "", "malformed-response"],
    [200, "[".repeat(10_000), "malformed-response"],
    [200, '{"choices": []}', "malformed-response"],
    [200, new Uint8Array([0xff, 0xfe]), "malformed-response"],
  ]) {
    assert.throws(() => answer(adapter(), status, body), (error) => error.class === expected, `${status}`);
  }
});
