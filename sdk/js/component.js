// The exports of a component, made of the author's class. Every exception is caught and returned as
// an error: an uncaught exception would be a trap, which has no message.

import { Diffing } from "./diffing.js";
import { ModelError, PluginError } from "./errors.js";
import { parseJson } from "./json.js";
import { Adapter, Formatter, Parser, Plugin, Policy, Processor, SimpleProcessor } from "./kinds.js";
import * as wire from "./wire.js";

/** The exports of all interfaces that the class implements. The world determines which of them are used. */
export function component(type) {
  if (typeof type !== "function" || !(type.prototype instanceof Plugin)) {
    throw new TypeError(
      "the default export of `plugin.js` has to be a class that extends a kind (Parser, Formatter, ...)",
    );
  }
  const descriptor = wire.descriptorOut(type.descriptor);
  const is = (...kinds) => kinds.some((kind) => type.prototype instanceof kind);
  let instance;
  const configured = () => {
    if (instance !== undefined) return instance;
    throw new PluginError("internal", "the plugin was called before `configure`");
  };

  const made = {
    plugin: {
      describe: () => descriptor,
      configure: guarded((config) => {
        const plugin = new type();
        plugin.configure(parseJson(config));
        instance = plugin instanceof SimpleProcessor ? new Diffing(plugin) : plugin;
      }),
    },
  };

  if (is(Parser)) {
    made.actionParser = {
      tools: () => wire.array(configured().tools(), "tools()").map(wire.toolOut),
      parse: guarded((reply) => {
        const outcome = configured().parse(wire.replyIn(reply));
        return Array.isArray(outcome)
          ? { tag: "actions", val: outcome.map(wire.actionOut) }
          : { tag: "malformed", val: wire.problemOut(outcome) };
      }),
    };
  }

  if (is(Formatter)) {
    made.observationFormatter = {
      format: guarded((actions, outputs) => {
        const messages = configured().format(actions.map(wire.actionIn), outputs.map(wire.outputIn));
        return wire.array(messages, "the result of `format`").map(wire.messageOut);
      }),
    };
  }

  if (is(Processor, SimpleProcessor)) {
    const answered = (answer) =>
      "purpose" in wire.object(answer, "the result of a processor")
        ? { tag: "ask", val: wire.queryOut(answer) }
        : { tag: "done", val: wire.changeOut(answer) };
    made.historyProcessor = {
      apply: guarded((change) =>
        is(SimpleProcessor)
          ? { tag: "done", val: configured().apply(change) }
          : answered(configured().apply(wire.changeIn(change))),
      ),
      resume: guarded((reply) => {
        if (is(SimpleProcessor)) throw new PluginError("unsupported", "this processor sends no queries");
        return answered(configured().resume(wire.replyIn(reply)));
      }),
    };
  }

  if (is(Policy)) {
    made.actionPolicy = {
      judge: guarded((action) => {
        const verdict = configured().judge(wire.actionIn(action));
        switch (verdict?.type) {
          case "allow":
            return { tag: "allow" };
          case "deny":
          case "ask":
            return { tag: verdict.type, val: wire.objectionOut(verdict) };
          case "rewrite":
            return { tag: "rewrite", val: wire.actionOut(verdict.action) };
        }
        throw new TypeError("`judge` has to return `allow()`, `deny(...)`, `ask(...)` or `rewrite(...)`");
      }),
    };
  }

  if (is(Adapter)) made.modelAdapter = adapter(configured);

  return made;
}

function adapter(configured) {
  const next = (answer) =>
    "message" in wire.object(answer, "the result of an adapter")
      ? { tag: "reply", val: wire.replyOut(answer) }
      : { tag: "send", val: wire.requestOut(answer) };
  // An exception in `head` or `feed`, which can't return errors; `finish` reports it.
  let broken;
  return {
    query: guarded((change, request) => {
      broken = undefined;
      const tools = request.tools.map(wire.toolIn);
      return next(configured().query(wire.changeIn(change), { tools, extra: wire.extraIn(request.extra) }));
    }, modelError),
    head(status, headers) {
      broken = undefined;
      try {
        configured().head(status, headers);
      } catch (error) {
        broken = { error };
      }
    },
    feed(bytes) {
      if (broken !== undefined) return [];
      try {
        return (configured().feed(bytes) ?? []).map(wire.deltaOut);
      } catch (error) {
        broken = { error };
        return [];
      }
    },
    finish: guarded(() => {
      const before = broken;
      broken = undefined;
      if (before !== undefined) throw before.error;
      return next(configured().finish());
    }, modelError),
  };
}

/** Calls a function, and throws its exception in the form that is the error case of the component's result. */
function guarded(call, toError = pluginError) {
  return (...args) => {
    try {
      return call(...args);
    } catch (error) {
      throw toError(error);
    }
  };
}

function pluginError(error) {
  if (error instanceof PluginError) {
    try {
      return {
        code: wire.text(error.code, "PluginError.code"),
        message: wire.text(error.message, "PluginError.message"),
        extra: wire.extraOut(error, "PluginError.extra"),
      };
    } catch (other) {
      error = other;
    }
  }
  return { code: "internal", message: words(error), extra: undefined };
}

function modelError(error) {
  if (error instanceof ModelError) {
    try {
      return wire.modelErrorOut(error);
    } catch (other) {
      error = other;
    }
  }
  // A fault of the plugin has no class of its own; the host does not retry this one.
  const { message, extra } = pluginError(error);
  return { class: "bad-request", message, retryAfterMs: undefined, usage: undefined, extra };
}

/** The error's text and its position in the code. */
function words(error) {
  if (!(error instanceof Error)) return `the plugin threw ${String(error).slice(0, 500).toWellFormed()}`;
  const place = String(error.stack ?? "")
    .split("\n")
    .find((line) => line.includes(".js:") && !line.includes("mswea-sdk/"));
  return `${error.name}: ${error.message}`.slice(0, 2000).toWellFormed() + (place ? ` (${place.trim()})` : "");
}
