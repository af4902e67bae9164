// What the host offers: a log, and its templates. In your unit tests `log` is kept for
// `takeLog`, and `render` calls what `setRender` was given (see testing.js).

import { PluginError } from "./errors.js";
import { objectText } from "./json.js";

const LEVELS = ["trace", "debug", "info", "warn", "error"];

export const kept = [];

let backend = {
  log(level, text) {
    kept.push([level, text]);
  },
  render() {
    throw new PluginError(
      "internal",
      "there is no host outside of a component; call `setRender` of `mswea-sdk/testing.js` first",
    );
  },
};

/** Puts another host in its place; the entry does, and tests do. */
export function setBackend(host) {
  const old = backend;
  backend = { ...backend, ...host };
  return old;
}

/** Writes one line to the host's log, under the plugin's name. Never fails. */
export function log(level, text) {
  backend.log(LEVELS.includes(level) ? level : "info", String(text).toWellFormed());
}

/**
 * Renders a Jinja template in the run's environment; `vars` are laid over the run's own variables.
 * Throws a `PluginError` of code `template` if it does not render.
 */
export function render(template, vars = {}) {
  return backend.render(String(template).toWellFormed(), objectText(vars, "vars") ?? "{}");
}
