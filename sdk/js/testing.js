// For a plugin's unit tests: replacements of the host's functions, input values, and a driver that
// calls a processor as the host does.

import { component } from "./component.js";
import { PluginError } from "./errors.js";
import * as host from "./host.js";
import { parseJson } from "./json.js";
import { applyChange, textOf } from "./values.js";
import * as wire from "./wire.js";

/** Sets the function that `host.render` calls. */
export function setRender(render) {
  host.setBackend({ render: (template, vars) => render(template, parseJson(vars)) });
}

/** Returns and removes the log lines so far, each as `[level, text]`. */
export function takeLog() {
  return host.kept.splice(0);
}

/** Configures a plugin as the host does: with the `default`s of its schema filled in. */
export function configure(type, config = {}) {
  const plugin = new type();
  plugin.configure(filled(type, config));
  return plugin;
}

/** A reply of plain text. */
export const replyText = (text) =>
  wire.replyIn(wire.replyOut({ message: { content: text }, finishReason: "stop" }));

/** A reply of tool calls, each as `[id, name, arguments]`. */
export const replyCalls = (...calls) =>
  wire.replyIn(
    wire.replyOut({
      message: { toolCalls: calls.map(([id, name, args]) => ({ id, name, arguments: args })) },
      finishReason: "tool_calls",
    }),
  );

/** Parses a reply: returns the commands, or the message of the problem. */
export function commands(parser, reply) {
  const outcome = parser.parse(reply);
  return Array.isArray(outcome) ? outcome.map((action) => action.command) : outcome.message;
}

/** A plugin behind the component's functions, with all their checks. */
export function guest(type, config = {}) {
  const made = component(type);
  try {
    made.plugin.configure(JSON.stringify(filled(type, config)));
  } catch (error) {
    throw new PluginError(error.code, error.message, error.extra ? parseJson(error.extra) : {});
  }
  return made;
}

/** A processor together with the host's copy of its view. */
export class Driver {
  constructor(type, config = {}, answer = undefined) {
    this.processor = guest(type, config).historyProcessor;
    this.answer = answer;
    /** The view after the last change. */
    this.view = [];
    /** The last change of the view. */
    this.last = undefined;
  }

  /** Passes a change, applies the result to the view, and returns the view. */
  apply(change) {
    let next = this.processor.apply(wire.changeOut(change));
    while (next.tag === "ask") {
      if (this.answer === undefined) throw new Error(`the processor asked for \`${next.val.purpose}\``);
      const reply = this.answer({ ...next.val, messages: next.val.messages.map(wire.messageIn) });
      next = this.processor.resume(wire.replyOut(reply));
    }
    const answer = wire.changeIn(next.val);
    if (answer.start > this.view.length) {
      throw new Error(`the view has ${this.view.length} messages, but its change starts at ${answer.start}`);
    }
    this.last = answer;
    applyChange(answer, this.view);
    return this.view;
  }

  /** The texts of the view. */
  texts() {
    return this.view.map(textOf);
  }
}

/**
 * Runs a processor over changes twice, with one instance and with a fresh one for each change, and
 * throws unless the views are equal. Returns the views.
 */
export function checkFreshInstances(type, changes, config = {}) {
  const warm = new Driver(type, config);
  const history = [];
  return changes.map((change, number) => {
    applyChange(change, history);
    const view = warm.apply(change).map(wire.messageOut);
    const fresh = new Driver(type, config).apply({ start: 0, messages: [...history] }).map(wire.messageOut);
    const same = view.length === fresh.length && view.every((one, index) => wire.sameMessage(one, fresh[index]));
    if (!same) {
      throw new Error(
        `after change ${number} a warm instance shows ${JSON.stringify(view)} and a fresh one ` +
          JSON.stringify(fresh),
      );
    }
    return view.map(wire.messageIn);
  });
}

function filled(type, config) {
  const result = { ...config };
  for (const [name, schema] of Object.entries(type.descriptor?.configSchema?.properties ?? {})) {
    if (!(name in result) && schema !== null && typeof schema === "object" && "default" in schema) {
      result[name] = structuredClone(schema.default);
    }
  }
  return result;
}
