// Write plugins for mswea-host in JavaScript or TypeScript. README.md is an introduction;
// index.d.ts documents every value and every method.

export { ModelError, PluginError } from "./errors.js";
export * as host from "./host.js";
export { parseJson } from "./json.js";
export {
  Adapter,
  Formatter,
  Parser,
  Plugin,
  Policy,
  Processor,
  SimpleAdapter,
  SimpleProcessor,
} from "./kinds.js";
export { Utf8Decoder, decodeUtf8, encodeUtf8 } from "./utf8.js";
export {
  allow,
  applyChange,
  ask,
  deny,
  isObservation,
  problem,
  rewrite,
  secret,
  textOf,
  withText,
} from "./values.js";
