// The entry of the build: connects the author's plugin with the host. Only this file imports the
// host's functions, which exist only inside a component.

import * as wit from "mswea:plugin/host@0.1.0";

import { component } from "./component.js";
import { PluginError } from "./errors.js";
import { log, setBackend } from "./host.js";
import { guardJson, lazyObject } from "./json.js";
import Author from "../plugin.js";

const host = wit.default ?? wit;

setBackend({
  log: (level, text) => host.log(level, text),
  render(template, vars) {
    try {
      return host.render(template, vars);
    } catch (error) {
      const said = error?.payload ?? error;
      throw new PluginError(said.code, said.message, said.extra ? lazyObject(said.extra) : {});
    }
  },
});

guardJson();

// QuickJS has no `console`, and users do not see the output of StarlingMonkey's.
const line = (level) => (...values) => log(level, values.map(shown).join(" "));
globalThis.console = {
  debug: line("debug"),
  log: line("info"),
  info: line("info"),
  warn: line("warn"),
  error: line("error"),
};

function shown(value) {
  if (typeof value !== "object" || value === null || value instanceof Error) return String(value);
  try {
    return JSON.stringify(value);
  } catch {
    return String(value);
  }
}

export const {
  plugin,
  modelAdapter,
  actionParser,
  observationFormatter,
  historyProcessor,
  actionPolicy,
} = component(Author);
