// The host's functions: a log, and templates. In unit tests, `log` keeps the lines for `takeLog`,
// and `render` calls the function that `setRender` has set (see testing.js).

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

/** Sets the implementation of the host's functions; called by entry.js and by tests. */
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
 * Renders a Jinja template in the run's environment; `vars` replace variables of the run with the
 * same name. Throws a `PluginError` with the code `template` if the template can't be rendered.
 */
export function render(template, vars = {}) {
  return backend.render(String(template).toWellFormed(), objectText(vars, "vars") ?? "{}");
}
