// Tests the SDK as a component uses it: through the functions that the host calls.

import assert from "node:assert/strict";
import { test } from "node:test";

import {
  Adapter,
  Formatter,
  ModelError,
  Parser,
  PluginError,
  Policy,
  Processor,
  SimpleAdapter,
  SimpleProcessor,
  Utf8Decoder,
  allow,
  applyChange,
  ask,
  decodeUtf8,
  deny,
  encodeUtf8,
  host,
  parseJson,
  problem,
  rewrite,
  secret,
  textOf,
  withText,
} from "../index.js";
import { component } from "../component.js";
import { MAX_DEPTH, lazyObject, objectText } from "../json.js";
import { Driver, checkFreshInstances, configure, guest, replyCalls, setRender, takeLog } from "../testing.js";
import * as wire from "../wire.js";

const descriptor = { name: "t", version: "0.1.0", summary: "for the tests", configSchema: { type: "object" } };
const say = (content, more = {}) => ({ role: "user", content, ...more });
const wireText = (text, extra) => ({
  role: "user",
  content: [{ tag: "text", val: text }],
  toolCalls: [],
  toolCallId: undefined,
  extra,
});
const wireReply = (text) => ({ message: wireText(text), finishReason: "stop", usage: undefined, model: "" });
/** The value that the component throws. It is never an `Error`, which would be a trap. */
function thrown(call) {
  try {
    call();
  } catch (error) {
    assert.ok(!(error instanceof Error), String(error));
    return error;
  }
  assert.fail("nothing was thrown");
}

test("depth of JSON", () => {
  const deep = "[".repeat(MAX_DEPTH) + "]".repeat(MAX_DEPTH);
  for (const [text, good] of [
    [deep, true],
    [`[${deep}]`, false],
    ["[".repeat(100_000), false],
    ['{"a":'.repeat(100_000), false],
    [JSON.stringify("[".repeat(1000)), true],
    [`["\\"${"[".repeat(1000)}", 1]`, true],
    [`["\\\\", ${deep}]`, false],
    [JSON.stringify(new Array(1000).fill([[]])), true],
    [`"${"[".repeat(1000)}`, false],
  ]) {
    if (good) parseJson(text);
    else assert.throws(() => parseJson(text), SyntaxError, text.slice(0, 20));
  }
});

test("an unchanged `extra` keeps its text", () => {
  const odd = '{ "n": 1.0, "big": 123456789012345678901234567890, "list": [1.0] }';
  for (const [look, same] of [
    [() => {}, true],
    [(extra) => extra.n + extra.big, true],
    [(extra) => "n" in extra, true],
    // The value inside may have been changed.
    [(extra) => extra.list, false],
    [(extra) => Object.keys(extra), false],
    [(extra) => ({ ...extra }), false],
    [(extra) => (extra.n = 1), false],
    [(extra) => delete extra.n, false],
  ]) {
    const extra = lazyObject(odd);
    look(extra);
    assert.equal(objectText(extra, "extra") === odd, same, String(look));
  }
  const extra = lazyObject(odd);
  extra.list.push(2);
  delete extra.big;
  extra.x = "\ud800\\ud800";
  assert.equal(objectText(extra, "extra"), '{"n":1,"list":[1,2],"x":"\\ufffd\\\\ud800"}');
  assert.deepEqual({ ...extra }, { n: 1, list: [1, 2], x: "\ud800\\ud800" });
});

test("UTF-8", () => {
  const texts = ["", "plain", "\0\u00e9\u2603\u{1f600}", "\u{10ffff}\uffff\u0800\u07ff\u0080", "a".repeat(9999)];
  for (const text of texts) {
    const bytes = encodeUtf8(text);
    assert.deepEqual(bytes, new Uint8Array(Buffer.from(text)));
    for (const size of [1, 2, 3, 5]) {
      const decoder = new Utf8Decoder();
      let decoded = "";
      for (let at = 0; at < bytes.length; at += size) decoded += decoder.decode(bytes.subarray(at, at + size));
      assert.equal(decoded + decoder.end(), text);
    }
  }
  assert.deepEqual(encodeUtf8("\ud800"), new Uint8Array([0xef, 0xbf, 0xbd]));
  // The results must equal those of browsers.
  const reference = new TextDecoder("utf-8", { ignoreBOM: true });
  let seed = 1;
  const next = () => (seed = (seed * 48271) % 0x7fffffff);
  const odd = [0x00, 0x41, 0x7f, 0x80, 0xbf, 0xc0, 0xc2, 0xe0, 0xa0, 0xed, 0x9f, 0xef, 0xf0, 0x90, 0xf4, 0x8f, 0xf5, 0xff];
  for (let round = 0; round < 3000; round++) {
    const bytes = Uint8Array.from({ length: next() % 9 }, () => odd[next() % odd.length]);
    assert.equal(decodeUtf8(bytes), reference.decode(bytes), String(bytes));
  }
});

class Marks extends SimpleProcessor {
  static descriptor = descriptor;
  process(history) {
    history.forEach((message, index) => {
      // A change in place must have no effect on the next call.
      if (textOf(message).startsWith("old") && index < history.length - 2) {
        message.content[0].text = message.content[0].text.toUpperCase();
        message.extra.marked = true;
      }
    });
    return history.filter((message) => textOf(message) !== "drop");
  }
}

test("only the differences are returned", () => {
  const driver = new Driver(Marks);
  for (const [change, start, sent, places] of [
    [{ start: 0, messages: ["a", "b", "c"].map((text) => say(text)) }, 0, 3],
    [{ start: 3, messages: [say("old")] }, 3, 1],
    [{ start: 4, messages: [] }, 4, 0],
    [{ start: 4, messages: [say("d")] }, 4, 1],
    [{ start: 5, messages: [say("e"), say("f")] }, 3, 3, [3, 5, 6]],
    [{ start: 7, messages: [say("drop")] }, 7, 0],
    [{ start: 2, messages: [] }, 2, 0],
    [{ start: 0, messages: [say("a")] }, 0, 1],
  ]) {
    driver.apply(change);
    assert.deepEqual([driver.last.start, driver.last.messages.length], [start, sent]);
    assert.deepEqual(driver.last.extra.places, places);
  }
});

test("random splices equal the whole", () => {
  let seed = 7;
  const below = (end) => (seed = (seed * 48271) % 0x7fffffff) % end;
  for (let round = 0; round < 200; round++) {
    const history = [];
    const changes = Array.from({ length: 1 + below(7) }, () => {
      const words = Array.from({ length: below(4) }, () => ["old", "drop", "x", "old y"][below(4)]);
      const change = { start: below(history.length + 1), messages: words.map((word) => say(word)) };
      applyChange(change, history);
      return change;
    });
    checkFreshInstances(Marks, changes);
  }
});

test("a change beyond the end is refused", () => {
  const { historyProcessor } = guest(Marks);
  assert.equal(thrown(() => historyProcessor.apply({ start: 1, messages: [] })).code, "invalid-input");
  assert.equal(thrown(() => historyProcessor.resume(wireReply("x"))).code, "unsupported");
});

test("messages are passed on byte for byte", () => {
  const message = {
    role: "assistant",
    content: [
      { tag: "text", val: "a" },
      { tag: "image", val: { url: "data:x", extra: '{"detail": "low"}' } },
      { tag: "reasoning", val: { text: "r", extra: undefined } },
      { tag: "opaque", val: { format: "f", data: "[1.0]", extra: '{"a": 1.0}' } },
    ],
    toolCalls: [{ id: "1", name: "bash", arguments: "\0{", extra: '{ "k":1 }' }],
    toolCallId: "2",
    extra: '{"n": 1.0}',
  };
  assert.deepEqual(wire.messageOut(wire.messageIn(message)), message);
  const cut = withText(wire.messageIn(message), "b");
  assert.deepEqual(wire.messageOut(cut), { ...message, content: [{ tag: "text", val: "b" }, ...message.content.slice(1)] });
});

/** A plugin of any kind but an adapter, whose methods call a function of the test. */
function acting(Kind, ...methods) {
  class Acting extends Kind {
    static descriptor = descriptor;
  }
  let act = () => undefined;
  for (const method of methods) Acting.prototype[method] = (...given) => act(...given);
  const made = guest(Acting);
  return [made, (value) => (act = typeof value === "function" ? value : () => value)];
}

test("outcomes", () => {
  const [{ actionParser }, set] = acting(Parser, "parse");
  set([{ command: "ls\ud800", toolCallId: "1", extra: { k: "\udfff" } }]);
  assert.deepEqual(actionParser.parse(wireReply("x")), {
    tag: "actions",
    val: [{ command: "ls\ufffd", toolCallId: "1", extra: '{"k":"\\ufffd"}' }],
  });
  set((reply) => problem("code", textOf(reply.message), { n: 1 }));
  assert.deepEqual(actionParser.parse(wireReply("words")), {
    tag: "malformed",
    val: { code: "code", message: "words", details: '{"n":1}', extra: undefined },
  });
  assert.deepEqual(actionParser.tools(), []);
});

test("every exception is an error", () => {
  const [{ actionParser }, set] = acting(Parser, "parse");
  const fail = (error) => () => {
    throw error;
  };
  const circle = {};
  circle.circle = circle;
  for (const [value, code, words] of [
    [fail(new Error("boom \ud800")), "internal", "Error: boom \ufffd (at"],
    [fail("a text \ud800"), "internal", "the plugin threw a text \ufffd"],
    [fail(null), "internal", "the plugin threw null"],
    [fail(new PluginError("mine", "a\ud800")), "mine", "a\ufffd"],
    [fail(new PluginError("mine", "words", circle)), "internal", "PluginError.extra"],
    [fail(new PluginError(3, "words")), "internal", "`PluginError.code` has to be a string, not number"],
    [undefined, "internal", "has to be an object, not undefined"],
    ["ls", "internal", "has to be an object, not string"],
    [["ls"], "internal", "an action has to be an object, not string"],
    [[{ command: 7 }], "internal", "`action.command` has to be a string, not number"],
    [[{ command: "x", extra: [1] }], "internal", "`action.extra` has to be an object, not an array"],
    [[{ command: "x", extra: circle }], "internal", "`action.extra` can't be written as JSON"],
    [[{ command: "x", extra: { n: 1n } }], "internal", "`action.extra` can't be written as JSON"],
  ]) {
    set(value);
    const error = thrown(() => actionParser.parse(wireReply("x")));
    assert.equal(error.code, code, words);
    assert.ok(error.message.includes(words), `${error.message} lacks ${words}`);
  }
});

test("configure", () => {
  class Refuses extends Parser {
    static descriptor = { ...descriptor, configSchema: { properties: { n: { default: [1] } } } };
    configure({ n }) {
      this.n = n;
      if (n.length !== 1) throw PluginError.invalidConfig("`n` is long; shorten it", "/n");
    }
  }
  assert.deepEqual(configure(Refuses).n, [1]);
  const { plugin, actionParser } = component(Refuses);
  assert.match(thrown(() => actionParser.parse(wireReply("x"))).message, /before `configure`/);
  assert.equal(thrown(() => plugin.configure("[".repeat(1000))).code, "internal");
  const error = thrown(() => plugin.configure('{"n": []}'));
  assert.deepEqual([error.code, error.extra], ["invalid-config", '{"pointer":"/n"}']);
  assert.equal(plugin.describe().configSchema, '{"properties":{"n":{"default":[1]}}}');
});

test("a class that is not a plugin is refused when it is built", () => {
  class Nameless extends Parser {}
  for (const wrong of [undefined, {}, class {}, Nameless]) assert.throws(() => component(wrong), TypeError);
});

test("formatters answer every tool call", () => {
  class Plain extends Formatter {
    static descriptor = descriptor;
    observe(_action, output) {
      return output.output || output.exceptionInfo;
    }
  }
  const { observationFormatter } = guest(Plain);
  const actions = [{ command: "a" }, { command: "b", toolCallId: "1" }, { command: "c" }, { command: "d", toolCallId: "2" }];
  const messages = observationFormatter.format(actions, [{ output: "one", returncode: 0, exceptionInfo: "" }]);
  assert.deepEqual(
    messages.map((message) => [message.role, message.toolCallId, message.content[0].val]),
    [
      ["user", undefined, "one"],
      ["tool", "1", "action was not executed"],
      ["tool", "2", "action was not executed"],
    ],
  );
});

test("processors", () => {
  const [{ historyProcessor }, set] = acting(Processor, "apply", "resume");
  const change = { start: 0, messages: [wireText("a")] };
  set({ start: 0, messages: [say("b")], extra: { places: [0] } });
  assert.equal(historyProcessor.apply(change).val.extra, '{"places":[0]}');
  set({ messages: [say("b")], purpose: "summary" });
  assert.equal(historyProcessor.resume(wireReply("x")).tag, "ask");
  for (const wrong of [undefined, { start: -1 }, { start: 2 ** 32 }, { start: "0" }, { start: 0, messages: "x" }]) {
    set(wrong);
    assert.equal(thrown(() => historyProcessor.apply(change)).code, "internal");
  }
  class Asks extends Processor {
    static descriptor = descriptor;
    apply = ({ messages }) => ({ messages, purpose: "summary" });
    resume = ({ message }) => ({ start: 0, messages: [message] });
  }
  const driver = new Driver(Asks, {}, (query) => ({ message: { content: query.purpose } }));
  driver.apply({ start: 0, messages: [say("x")] });
  assert.deepEqual(driver.texts(), ["summary"]);
});

test("verdicts", () => {
  const [{ actionPolicy }, set] = acting(Policy, "judge");
  for (const [verdict, tag] of [
    [allow(), "allow"],
    [deny("no", "code"), "deny"],
    [ask("why"), "ask"],
    [rewrite({ command: "ls" }), "rewrite"],
  ]) {
    set(verdict);
    assert.equal(actionPolicy.judge({ command: "x" }).tag, tag);
  }
  for (const wrong of [true, undefined, { type: "maybe" }, { type: "deny" }]) {
    set(wrong);
    assert.equal(thrown(() => actionPolicy.judge({ command: "x" })).code, "internal");
  }
});

test("adapters", () => {
  const [{ modelAdapter }, set] = acting(Adapter, "query", "head", "feed", "finish");
  const query = () => modelAdapter.query({ start: 0, messages: [] }, { tools: [] });
  set({ method: "POST", url: "http://h/", headers: { a: "b", c: secret("KEY", "Bearer ") }, body: "\u00e9" });
  const sent = query().val;
  assert.deepEqual([...sent.body], [0xc3, 0xa9]);
  assert.deepEqual(sent.headers[1].value.val.name, "KEY");
  set({ message: { content: "x" }, usage: { inputTokens: 3 } });
  assert.equal(modelAdapter.finish().val.usage.inputTokens, 3);
  for (const [value, expected] of [
    [new ModelError("rate-limited", "wait", { retryAfterMs: 5 }), "rate-limited"],
    [new ModelError("rate-limited", "wait", { retryAfterMs: -5 }), "bad-request"],
    [new PluginError("x", "y"), "bad-request"],
    [new RangeError("x"), "bad-request"],
    [{ message: { content: "x" }, usage: { inputTokens: -3 } }, "bad-request"],
    [{ method: "GET", url: "http://h/", body: 7 }, "bad-request"],
    [undefined, "bad-request"],
  ]) {
    set(() => {
      if (value instanceof Error) throw value;
      return value;
    });
    assert.equal(thrown(query).class, expected);
  }
});

test("`finish` reports exceptions of `head` and `feed`", () => {
  const [{ modelAdapter }, set] = acting(Adapter, "query", "head", "feed", "finish");
  set([{ kind: "text", text: "a\ud800" }]);
  assert.equal(modelAdapter.feed(new Uint8Array())[0].text, "a\ufffd");
  set([{ kind: "end" }]);
  assert.deepEqual(modelAdapter.feed(new Uint8Array()), [{ kind: "end", text: "", extra: undefined }]);
  set(() => {
    throw new Error("in the middle");
  });
  assert.deepEqual(modelAdapter.feed(new Uint8Array()), []);
  set({ message: {} });
  assert.deepEqual(modelAdapter.feed(new Uint8Array()), []);
  assert.match(thrown(() => modelAdapter.finish()).message, /in the middle/);
  // A new `head` begins a new response.
  modelAdapter.head(200, []);
  assert.equal(modelAdapter.finish().tag, "reply");
});

test("a simple adapter keeps history and body", () => {
  class Echo extends SimpleAdapter {
    static descriptor = descriptor;
    send = (history) => ({ message: { content: history.map(textOf).join(" ") } });
    receive = (response) => ({ message: { content: `${response.status} ${response.headers.x} ${response.text()}` } });
  }
  const { modelAdapter } = guest(Echo);
  const said = (next) => next.val.message.content[0].val;
  const query = (start, ...texts) => modelAdapter.query({ start, messages: texts.map((t) => wireText(t)) }, { tools: [] });
  assert.equal(said(query(0, "a", "b")), "a b");
  assert.equal(said(query(1, "c")), "a c");
  modelAdapter.head(500, []);
  modelAdapter.feed(encodeUtf8("lost"));
  // A repeated request begins a new response.
  modelAdapter.head(200, [["x", "y"]]);
  modelAdapter.feed(new Uint8Array([0xe2, 0x98]));
  modelAdapter.feed(new Uint8Array([0x83]));
  assert.equal(said(modelAdapter.finish()), "200 y \u2603");
  assert.equal(thrown(() => modelAdapter.finish()).class, "malformed-response");
  assert.equal(thrown(() => query(9)).class, "bad-request");
});

test("the replacements of the host's functions", () => {
  takeLog();
  host.log("warn", "a\ud800");
  host.log("no such level", 7);
  assert.deepEqual(takeLog(), [
    ["warn", "a\ufffd"],
    ["info", "7"],
  ]);
  assert.throws(() => host.render("{{ x }}"), PluginError);
  setRender((template, vars) => template + JSON.stringify(vars));
  assert.equal(host.render("t", { x: 1 }), 't{"x":1}');
  assert.deepEqual(replyCalls(["1", "bash", "{}"]).message.toolCalls[0].name, "bash");
});
