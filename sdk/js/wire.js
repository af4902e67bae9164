// Converts between the SDK's values and the component's. Values for the host are checked here: if
// an engine gets a number in place of a string, it ends the component without a message.

import { lazyObject, nameOf, objectText, parseJson } from "./json.js";
import { encodeUtf8 } from "./utf8.js";

// --- in ---

export const extraIn = (text) => (text === null || text === undefined ? {} : lazyObject(text));

function partIn(part) {
  const { tag, val } = part;
  if (tag === "text") return { type: "text", text: val };
  if (tag === "image") return { type: "image", url: val.url, extra: extraIn(val.extra) };
  if (tag === "reasoning") return { type: "reasoning", text: val.text, extra: extraIn(val.extra) };
  return { type: "opaque", format: val.format, data: val.data, extra: extraIn(val.extra) };
}

const callIn = (call) => ({
  id: call.id,
  name: call.name,
  arguments: call.arguments,
  extra: extraIn(call.extra),
});

export function messageIn(wire) {
  return {
    role: wire.role,
    content: wire.content.map(partIn),
    toolCalls: wire.toolCalls.length === 0 ? [] : wire.toolCalls.map(callIn),
    toolCallId: wire.toolCallId ?? undefined,
    extra: extraIn(wire.extra),
  };
}

export const changeIn = (wire) => ({
  start: wire.start,
  messages: wire.messages.map(messageIn),
  extra: extraIn(wire.extra),
});

export const actionIn = (wire) => ({
  command: wire.command,
  toolCallId: wire.toolCallId ?? undefined,
  extra: extraIn(wire.extra),
});

export const outputIn = (wire) => ({
  output: wire.output,
  returncode: wire.returncode,
  exceptionInfo: wire.exceptionInfo,
  extra: extraIn(wire.extra),
});

export const toolIn = (wire) => ({
  name: wire.name,
  description: wire.description,
  parameters: parseJson(wire.parameters),
  extra: extraIn(wire.extra),
});

const usageIn = (wire) => ({
  // Some engines pass these numbers as BigInt.
  inputTokens: Number(wire.inputTokens),
  cacheReadTokens: Number(wire.cacheReadTokens),
  cacheWriteTokens: Number(wire.cacheWriteTokens),
  outputTokens: Number(wire.outputTokens),
  reasoningTokens: Number(wire.reasoningTokens),
  cost: wire.cost ?? undefined,
  extra: extraIn(wire.extra),
});

export const replyIn = (wire) => ({
  message: messageIn(wire.message),
  finishReason: wire.finishReason,
  usage: wire.usage ? usageIn(wire.usage) : undefined,
  model: wire.model,
  response: wire.response ?? undefined,
  extra: extraIn(wire.extra),
});

// --- out ---

export function text(value, what) {
  if (typeof value !== "string") {
    throw new TypeError(`\`${what}\` has to be a string, not ${nameOf(value)}`);
  }
  return value.toWellFormed();
}

const textOrNull = (value, what) => (value === undefined || value === null ? undefined : text(value, what));

export const extraOut = (owner, what) => objectText(owner.extra, what) ?? undefined;

export function array(value, what) {
  if (!Array.isArray(value)) throw new TypeError(`\`${what}\` has to be an array, not ${nameOf(value)}`);
  return value;
}

export function object(value, what) {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new TypeError(`${what} has to be an object, not ${nameOf(value)}`);
  }
  return value;
}

function whole(value, what, most) {
  if (!Number.isInteger(value) || value < 0 || value > most) {
    throw new TypeError(`\`${what}\` has to be a whole number from 0 on, not ${String(value).slice(0, 40)}`);
  }
  return value;
}

// QuickJS represents a 64-bit number as Number, StarlingMonkey as BigInt.
const u64 = globalThis.__cqjs === undefined && globalThis.process === undefined ? BigInt : Number;

const count = (value, what) => u64(whole(value ?? 0, what, Number.MAX_SAFE_INTEGER));

function partOut(part) {
  object(part, "a part of `message.content`");
  switch (part.type) {
    case "text":
      return { tag: "text", val: text(part.text, "text.text") };
    case "image":
      return { tag: "image", val: { url: text(part.url, "image.url"), extra: extraOut(part, "image.extra") } };
    case "reasoning":
      return {
        tag: "reasoning",
        val: { text: text(part.text, "reasoning.text"), extra: extraOut(part, "reasoning.extra") },
      };
    case "opaque":
      return {
        tag: "opaque",
        val: {
          format: text(part.format, "opaque.format"),
          data: text(part.data, "opaque.data"),
          extra: extraOut(part, "opaque.extra"),
        },
      };
  }
  throw new TypeError(
    `a part of \`message.content\` has the type \`${part.type}\`; it has to be \`text\`, \`image\`, ` +
      "`reasoning` or `opaque`",
  );
}

function contentOut(content) {
  if (content === undefined || content === null) return [];
  if (typeof content === "string") return [{ tag: "text", val: content.toWellFormed() }];
  return array(content, "message.content").map(partOut);
}

export function messageOut(message) {
  object(message, "a message");
  return {
    role: text(message.role, "message.role"),
    content: contentOut(message.content),
    toolCalls: array(message.toolCalls ?? [], "message.toolCalls").map((call) => ({
      id: text(call.id, "toolCall.id"),
      name: text(call.name, "toolCall.name"),
      arguments: text(call.arguments, "toolCall.arguments"),
      extra: extraOut(call, "toolCall.extra"),
    })),
    toolCallId: textOrNull(message.toolCallId, "message.toolCallId"),
    extra: extraOut(message, "message.extra"),
  };
}

export function changeOut(change) {
  return {
    start: whole(change.start, "change.start", 0xffffffff),
    messages: array(change.messages ?? [], "change.messages").map(messageOut),
    extra: extraOut(change, "change.extra"),
  };
}

export function actionOut(action) {
  object(action, "an action");
  return {
    command: text(action.command, "action.command"),
    toolCallId: textOrNull(action.toolCallId, "action.toolCallId"),
    extra: extraOut(action, "action.extra"),
  };
}

export function toolOut(tool) {
  return {
    name: text(tool.name, "tool.name"),
    description: text(tool.description, "tool.description"),
    parameters: objectText(tool.parameters, "tool.parameters") ?? "{}",
    extra: extraOut(tool, "tool.extra"),
  };
}

export function problemOut(problem) {
  object(problem, "the result of `parse`, if it is no array,");
  return {
    code: text(problem.code, "problem.code"),
    message: text(problem.message, "problem.message"),
    details: objectText(problem.details, "problem.details") ?? undefined,
    extra: extraOut(problem, "problem.extra"),
  };
}

export function objectionOut(verdict) {
  return {
    code: text(verdict.code ?? "", "verdict.code"),
    message: text(verdict.message, "verdict.message"),
    extra: extraOut(verdict, "verdict.extra"),
  };
}

export function queryOut(query) {
  return {
    messages: array(query.messages, "query.messages").map(messageOut),
    purpose: text(query.purpose, "query.purpose"),
    extra: extraOut(query, "query.extra"),
  };
}

export function usageOut(usage) {
  if (usage === undefined || usage === null) return undefined;
  return {
    inputTokens: count(usage.inputTokens, "usage.inputTokens"),
    cacheReadTokens: count(usage.cacheReadTokens, "usage.cacheReadTokens"),
    cacheWriteTokens: count(usage.cacheWriteTokens, "usage.cacheWriteTokens"),
    outputTokens: count(usage.outputTokens, "usage.outputTokens"),
    reasoningTokens: count(usage.reasoningTokens, "usage.reasoningTokens"),
    cost: typeof usage.cost === "number" ? usage.cost : undefined,
    extra: extraOut(usage, "usage.extra"),
  };
}

export function replyOut(reply) {
  return {
    message: messageOut({ role: "assistant", ...reply.message }),
    finishReason: text(reply.finishReason ?? "", "reply.finishReason"),
    usage: usageOut(reply.usage),
    model: text(reply.model ?? "", "reply.model"),
    response: textOrNull(reply.response, "reply.response"),
    extra: extraOut(reply, "reply.extra"),
  };
}

function headerOut([name, value]) {
  if (typeof value === "object" && value !== null) {
    const secret = {
      name: text(value.secret, "secret.secret"),
      prefix: text(value.prefix ?? "", "secret.prefix"),
      extra: extraOut(value, "secret.extra"),
    };
    return { name: text(name, "a header's name"), value: { tag: "secret", val: secret } };
  }
  return {
    name: text(name, "a header's name"),
    value: { tag: "plain", val: text(value, `the value of the header ${String(name)}`) },
  };
}

export function requestOut(request) {
  const { headers = [], body = "" } = request;
  const pairs = Array.isArray(headers) ? headers : Object.entries(headers);
  if (typeof body !== "string" && !(body instanceof Uint8Array)) {
    throw new TypeError(`\`request.body\` has to be a string or a Uint8Array, not ${nameOf(body)}`);
  }
  return {
    method: text(request.method, "request.method"),
    url: text(request.url, "request.url"),
    headers: pairs.map(headerOut),
    body: typeof body === "string" ? encodeUtf8(body) : body,
    extra: extraOut(request, "request.extra"),
  };
}

export const deltaOut = (delta) => ({
  kind: text(delta.kind, "delta.kind"),
  text: text(delta.text ?? "", "delta.text"),
  extra: extraOut(delta, "delta.extra"),
});

export const modelErrorOut = (error) => ({
  class: text(error.class, "ModelError.class"),
  message: text(error.message, "ModelError.message"),
  retryAfterMs:
    error.retryAfterMs === undefined || error.retryAfterMs === null
      ? undefined
      : count(error.retryAfterMs, "ModelError.retryAfterMs"),
  usage: usageOut(error.usage),
  extra: extraOut(error, "ModelError.extra"),
});

export function descriptorOut(descriptor) {
  object(descriptor, "`static descriptor`");
  const schema = descriptor.configSchema ?? { type: "object", additionalProperties: false };
  return {
    name: text(descriptor.name, "descriptor.name"),
    version: text(descriptor.version, "descriptor.version"),
    summary: text(descriptor.summary, "descriptor.summary"),
    configSchema: objectText(schema, "descriptor.configSchema") ?? "{}",
    secrets: array(descriptor.secrets ?? [], "descriptor.secrets").map((name) => text(name, "a secret")),
    hosts: array(descriptor.hosts ?? [], "descriptor.hosts").map((name) => text(name, "a host")),
    extra: extraOut(descriptor, "descriptor.extra"),
  };
}

// --- comparing ---

const sameExtra = (a, b) => (a.extra ?? null) === (b.extra ?? null);

function samePart(a, b) {
  if (a.tag !== b.tag) return false;
  if (a.tag === "text") return a.val === b.val;
  const [x, y] = [a.val, b.val];
  return (
    x.url === y.url && x.text === y.text && x.format === y.format && x.data === y.data && sameExtra(x, y)
  );
}

const sameCall = (a, b) =>
  a.id === b.id && a.name === b.name && a.arguments === b.arguments && sameExtra(a, b);

const sameList = (a, b, same) => a.length === b.length && a.every((value, index) => same(value, b[index]));

/**
 * Whether a message of the author equals one of the component. `true` is always right. `false` may
 * be wrong if the same message is written in another form: then compare with `messageOut` and
 * `sameMessage`. For most messages this function makes no new objects, and does not read long
 * texts, because they are the same string.
 */
export function isUnchanged(message, wire) {
  const { role, content, toolCalls, toolCallId } = message ?? {};
  if (role !== wire.role || (toolCallId ?? null) !== (wire.toolCallId ?? null)) return false;
  if (!Array.isArray(content) || content.length !== wire.content.length) return false;
  if (!Array.isArray(toolCalls) || toolCalls.length !== 0 || wire.toolCalls.length !== 0) return false;
  for (let index = 0; index < content.length; index++) {
    const { tag, val } = wire.content[index];
    if (tag !== "text" || content[index]?.type !== "text" || content[index].text !== val) return false;
  }
  return (objectText(message.extra, "message.extra") ?? null) === (wire.extra ?? null);
}

/** Whether two messages of the component are equal, byte for byte. */
export const sameMessage = (a, b) =>
  a.role === b.role &&
  (a.toolCallId ?? null) === (b.toolCallId ?? null) &&
  sameExtra(a, b) &&
  sameList(a.content, b.content, samePart) &&
  sameList(a.toolCalls, b.toolCalls, sameCall);
