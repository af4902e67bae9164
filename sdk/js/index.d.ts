// The values and classes of mswea-sdk. `wit/` documents the fields.

/** A JSON object. */
export type Json = { [key: string]: any };

/** One part of a message's content. `data` is JSON text, which must be passed on unchanged. */
export type ContentPart =
  | { type: "text"; text: string }
  | { type: "image"; url: string; extra?: Json }
  | { type: "reasoning"; text: string; extra?: Json }
  | { type: "opaque"; format: string; data: string; extra?: Json };

/** A tool call as the model wrote it: `arguments` may be any text. */
export interface ToolCall {
  id: string;
  name: string;
  arguments: string;
  extra?: Json;
}

/** A message from the host. */
export interface Message {
  /** `system`, `user`, `assistant`, `tool`, `exit`; unknown roles are passed on. */
  role: string;
  content: ContentPart[];
  toolCalls: ToolCall[];
  /** For role `tool`: the id of the call whose result this is. */
  toolCallId?: string;
  /** Pass on the keys that you don't know. */
  extra: Json;
}

/** A message that you return: the content may be a text. */
export interface NewMessage {
  role: string;
  content?: string | ContentPart[];
  toolCalls?: ToolCall[];
  toolCallId?: string;
  extra?: Json;
}

/** `history[start..]` is now `messages`; with `places` in `extra`, only the messages at these indices change. */
export interface Change<M = Message> {
  start: number;
  messages: M[];
  extra?: Json;
}

/** A tool that is offered to the model; `parameters` is the JSON Schema of its arguments. */
export interface Tool {
  name: string;
  description: string;
  parameters: Json;
  extra?: Json;
}

/** An action: a shell command. */
export interface Action {
  command: string;
  toolCallId?: string;
  extra?: Json;
}

/** The output of one action. */
export interface Output {
  output: string;
  returncode: number;
  exceptionInfo: string;
  extra: Json;
}

/** The tokens and the cost of one reply. */
export interface Usage {
  inputTokens?: number;
  cacheReadTokens?: number;
  cacheWriteTokens?: number;
  outputTokens?: number;
  reasoningTokens?: number;
  /** US dollars, if the provider reports the cost. */
  cost?: number;
  extra?: Json;
}

/** A model's reply, from the host. */
export interface Reply {
  message: Message;
  finishReason: string;
  usage?: Usage;
  model: string;
  /** The provider's response, as JSON text; parsers do not get it. */
  response?: string;
  extra: Json;
}

/** A model's reply that an adapter returns. */
export interface NewReply {
  message: Omit<NewMessage, "role"> & { role?: "assistant" };
  finishReason?: string;
  usage?: Usage;
  model?: string;
  response?: string;
  extra?: Json;
}

/** The model's error; the model gets the message. `details` are further variables of the feedback template. */
export interface Problem {
  code: string;
  message: string;
  details?: Json;
  extra?: Json;
}

/** The judgement on an action. */
export type Verdict =
  | { type: "allow" }
  | { type: "deny" | "ask"; message: string; code?: string; extra?: Json }
  | { type: "rewrite"; action: Action };

/** A query of a processor to the model. `purpose` is one word: `summary`, ... */
export interface Query {
  messages: NewMessage[];
  purpose: string;
  extra?: Json;
}

/** A header's value that the host fills in. */
export interface Secret {
  secret: string;
  prefix?: string;
  extra?: Json;
}

/** A request for the host to send. */
export interface HttpRequest {
  method: string;
  url: string;
  headers?: Array<[string, string | Secret]> | { [name: string]: string | Secret };
  body?: string | Uint8Array;
  extra?: Json;
}

/**
 * New text of the reply, for display: `kind` is `text`, `reasoning` or `tool-call`. Two kinds have no
 * text, and tell the host that the reply is complete although the connection stays open: `finished`
 * (token counts may follow) and `end` (nothing that follows counts).
 */
export interface Delta {
  kind: string;
  text?: string;
  extra?: Json;
}

/** A whole response. */
export interface Response {
  status: number;
  /** Names in lower case. */
  headers: { [name: string]: string };
  body: Uint8Array;
  text(): string;
}

/** The plugin's description, which its class has as `static descriptor`. */
export interface Descriptor {
  name: string;
  version: string;
  summary: string;
  /** JSON Schema (draft 2020-12). The host checks the config and fills in the defaults of top-level properties. */
  configSchema?: Json;
  /** Adapters: the names of the secrets in requests. */
  secrets?: string[];
  /** Adapters: the hosts of requests with the default config, `host` or `host:port`. */
  hosts?: string[];
  extra?: Json;
}

export abstract class Plugin {
  static descriptor: Descriptor;
  configure(config: any): void;
}

export abstract class Parser extends Plugin {
  tools(): Tool[];
  abstract parse(reply: Reply): Action[] | Problem;
}

export class Formatter extends Plugin {
  observe(action: Action, output: Output): string;
  format(actions: Action[], outputs: Output[]): NewMessage[];
}

export abstract class SimpleProcessor extends Plugin {
  abstract process(history: Message[]): NewMessage[];
}

export abstract class Processor extends Plugin {
  abstract apply(change: Change): Change<NewMessage> | Query;
  resume(reply: Reply): Change<NewMessage> | Query;
}

export abstract class Policy extends Plugin {
  abstract judge(action: Action): Verdict;
}

export abstract class Adapter extends Plugin {
  abstract query(change: Change, request: { tools: Tool[]; extra: Json }): HttpRequest | NewReply;
  abstract head(status: number, headers: Array<[string, string]>): void;
  abstract feed(bytes: Uint8Array): Delta[];
  abstract finish(): HttpRequest | NewReply;
}

export abstract class SimpleAdapter extends Adapter {
  abstract send(history: Message[], tools: Tool[]): HttpRequest | NewReply;
  abstract receive(response: Response): HttpRequest | NewReply;
  query(change: Change, request: { tools: Tool[]; extra?: Json }): HttpRequest | NewReply;
  head(status: number, headers: Array<[string, string]>): void;
  feed(bytes: Uint8Array): Delta[];
  finish(): HttpRequest | NewReply;
}

/** A fault of the plugin, its config or its input. */
export class PluginError extends Error {
  constructor(
    code: "invalid-config" | "invalid-input" | "unsupported" | "internal" | "template" | (string & {}),
    message: string,
    extra?: Json,
  );
  code: string;
  extra: Json;
  static invalidConfig(message: string, pointer?: string): PluginError;
  static invalidInput(message: string): PluginError;
}

export type ModelErrorClass =
  | "authentication"
  | "permission"
  | "not-found"
  | "bad-request"
  | "context-window-exceeded"
  | "rate-limited"
  | "overloaded"
  | "timeout"
  | "network"
  | "content-filtered"
  | "malformed-response";

/** The reason why there is no reply. */
export class ModelError extends Error {
  constructor(
    modelClass: ModelErrorClass,
    message: string,
    more?: { retryAfterMs?: number; usage?: Usage; extra?: Json },
  );
  class: string;
  retryAfterMs?: number;
  usage?: Usage;
  extra: Json;
}

export namespace host {
  function log(level: "trace" | "debug" | "info" | "warn" | "error", text: string): void;
  function render(template: string, vars?: Json): string;
}

export function problem(code: string, message: string, details?: Json): Problem;
export function allow(): Verdict;
export function deny(message: string, code?: string): Verdict;
export function ask(message: string, code?: string): Verdict;
export function rewrite(action: Action): Verdict;
export function secret(name: string, prefix?: string): Secret;
export function textOf(message: NewMessage): string;
export function withText<M extends NewMessage>(message: M, text: string): M;
export function isObservation(message: NewMessage): boolean;
export function applyChange<M>(change: Change<M>, list: M[]): M[];
export function parseJson(text: string): any;
export function encodeUtf8(text: string): Uint8Array;
export function decodeUtf8(bytes: Uint8Array): string;

export class Utf8Decoder {
  decode(bytes: Uint8Array): string;
  end(): string;
}
