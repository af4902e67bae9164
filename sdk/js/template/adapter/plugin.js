// {{name}}: a simple adapter for servers of chat completions, without streaming.
//
// It sends nothing itself: it returns requests, and decodes responses.

import { ModelError, SimpleAdapter, parseJson, secret, textOf } from "./mswea-sdk/index.js";

// The error class for a status; the host retries `rate-limited` and `overloaded`.
const CLASSES = {
  400: "bad-request",
  401: "authentication",
  403: "permission",
  404: "not-found",
  429: "rate-limited",
};

export default class {{pascal_name}} extends SimpleAdapter {
  static descriptor = {
    name: "{{name}}",
    version: "0.1.0",
    summary: "Chat completions, without streaming",
    configSchema: {
      type: "object",
      properties: {
        model: { type: "string", description: "Name of the model" },
        base_url: {
          type: "string",
          default: "http://127.0.0.1:8000/v1",
          description: "The API's base URL",
        },
        api_key: {
          type: ["string", "null"],
          default: "OPENAI_API_KEY",
          description: "NAME of the secret; empty for servers that need none",
        },
      },
      required: ["model"],
      additionalProperties: false,
    },
    hosts: ["127.0.0.1:8000"],
    secrets: ["OPENAI_API_KEY"],
  };

  configure(config) {
    this.model = config.model;
    this.url = `${config.base_url.replace(/\/+$/, "")}/chat/completions`;
    this.apiKey = config.api_key;
  }

  send(history, tools) {
    const headers = { "content-type": "application/json" };
    // The host fills in the key; a plugin never gets one.
    if (this.apiKey) headers.authorization = secret(this.apiKey, "Bearer ");
    const body = { model: this.model, messages: history.map(toWire) };
    if (tools.length > 0) {
      body.tools = tools.map(({ name, description, parameters }) => ({
        type: "function",
        function: { name, description, parameters },
      }));
    }
    return { method: "POST", url: this.url, headers, body: JSON.stringify(body) };
  }

  receive(response) {
    const text = response.text();
    if (response.status !== 200) {
      const otherwise = response.status >= 500 ? "overloaded" : "bad-request";
      throw new ModelError(
        CLASSES[response.status] ?? otherwise,
        `the server answered ${response.status}: ${text.slice(0, 500)}`,
      );
    }
    try {
      const answer = parseJson(text);
      const choice = answer.choices[0];
      const usage = answer.usage ?? {};
      return {
        message: {
          content: choice.message.content ?? "",
          toolCalls: (choice.message.tool_calls ?? []).map((call) => ({
            id: call.id,
            name: call.function.name,
            arguments: call.function.arguments,
          })),
        },
        finishReason: choice.finish_reason ?? "",
        usage: { inputTokens: usage.prompt_tokens ?? 0, outputTokens: usage.completion_tokens ?? 0 },
        model: answer.model ?? this.model,
        response: text,
      };
    } catch (error) {
      throw new ModelError(
        "malformed-response",
        `the answer is no chat completion (${error.message}): ${text.slice(0, 500)}`,
      );
    }
  }
}

function toWire(message) {
  const wire = { role: message.role, content: textOf(message) };
  if (message.toolCalls.length > 0) {
    wire.tool_calls = message.toolCalls.map((call) => ({
      id: call.id,
      type: "function",
      function: { name: call.name, arguments: call.arguments },
    }));
  }
  if (message.toolCallId !== undefined) wire.tool_call_id = message.toolCallId;
  return wire;
}
