// JSON from and for the host. The engines do not limit the depth of JSON: a deep text overflows the
// stack, which ends the component without an exception.

/** Deeper texts are refused. The host itself accepts a depth of 128. */
export const MAX_DEPTH = 200;

const parse = JSON.parse;

/** Parses JSON from an untrusted source. Throws a `SyntaxError` if it is invalid or too deep. */
export function parseJson(text, reviver) {
  text = String(text);
  checkDepth(text);
  return parse(text, reviver);
}

/** Replaces `JSON.parse` by `parseJson`, for code that calls `JSON.parse`. */
export function guardJson() {
  JSON.parse = parseJson;
}

/**
 * An object that is parsed when it is first read. An unchanged object is returned as its original
 * text: parsing it and writing it again would take time and lose digits of long numbers.
 */
export function lazyObject(text) {
  return new Proxy(NOTHING, new Lazy(text));
}

/** An object as JSON text, or null for an empty one. */
export function objectText(object, what) {
  if (object === null || object === undefined) return null;
  if (typeof object !== "object" || Array.isArray(object)) {
    throw new TypeError(`\`${what}\` has to be an object, not ${nameOf(object)}`);
  }
  const untouched = object[TEXT];
  if (typeof untouched === "string") return untouched;
  let text;
  try {
    text = JSON.stringify(object);
  } catch (error) {
    throw new TypeError(`\`${what}\` can't be written as JSON: ${error.message}`);
  }
  // Lone surrogates come out as escapes, which are valid for JavaScript only.
  if (text === "{}") return null;
  return text.includes("\\ud") ? text.replace(ESCAPE, (found) => (LONE.test(found) ? "\\ufffd" : found)) : text;
}

/** What a value is, for messages. */
export function nameOf(value) {
  return value === null ? "null" : Array.isArray(value) ? "an array" : typeof value;
}

// Matches one escape after the other, so that the second backslash of `\\` does not count as the
// beginning of an escape.
const ESCAPE = /\\(?:u[0-9a-f]{4}|.)/g;
const LONE = /^\\ud[89a-f]/;

// The key with which a lazy object returns its text, as long as the object can't have been changed.
const TEXT = Symbol("text");

// The proxies' target. It stays empty.
const NOTHING = {};

/** Parses the text at the first access; drops the text when the object may have been changed. */
class Lazy {
  constructor(text) {
    this.text = text;
    this.object = undefined;
  }
  load() {
    if (this.object === undefined) {
      const value = parseJson(this.text);
      if (typeof value !== "object" || value === null || Array.isArray(value)) {
        throw new TypeError("an `extra` of the host is no object; this is a fault of the host");
      }
      this.object = value;
    }
    return this.object;
  }
  change() {
    const object = this.load();
    this.text = undefined;
    return object;
  }
  get(_target, key) {
    if (key === TEXT) return this.text;
    const value = this.load()[key];
    // From now on, the value inside can be changed without a call of this proxy.
    if (typeof value === "object" && value !== null) this.text = undefined;
    return value;
  }
  has(_target, key) {
    return key in this.load();
  }
  ownKeys() {
    return Reflect.ownKeys(this.load());
  }
  getOwnPropertyDescriptor(_target, key) {
    const descriptor = Reflect.getOwnPropertyDescriptor(this.load(), key);
    if (descriptor !== undefined) this.get(undefined, key);
    return descriptor;
  }
  set(_target, key, value) {
    this.change()[key] = value;
    return true;
  }
  defineProperty(_target, key, descriptor) {
    return Reflect.defineProperty(this.change(), key, { ...descriptor, configurable: true });
  }
  deleteProperty(_target, key) {
    return delete this.change()[key];
  }
}

function checkDepth(text) {
  // Nearly every text has fewer brackets than the limit, and counting them takes nearly no time.
  if (text.length <= MAX_DEPTH || !has(text, MAX_DEPTH)) return;
  let depth = 0;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === 34) {
      at = endOfString(text, at + 1);
    } else if (code === 91 || code === 123) {
      if (++depth > MAX_DEPTH) throw new SyntaxError(`JSON nested deeper than ${MAX_DEPTH}`);
    } else if (code === 93 || code === 125) {
      depth--;
    }
  }
}

/** Whether a text has more than `many` opening brackets. */
function has(text, many) {
  for (const bracket of ["[", "{"]) {
    for (let at = text.indexOf(bracket); at >= 0; at = text.indexOf(bracket, at + 1)) {
      if (--many < 0) return true;
    }
  }
  return false;
}

/** The end of the string that begins before `at`: its closing quote, or the end of the text. */
function endOfString(text, at) {
  for (;;) {
    const quote = text.indexOf('"', at);
    if (quote < 0) return text.length;
    let slashes = quote;
    while (slashes > at && text.charCodeAt(slashes - 1) === 92) slashes--;
    if ((quote - slashes) % 2 === 0) return quote;
    at = quote + 1;
  }
}
