// What a plugin derives from: one class per kind.

import { ModelError, PluginError } from "./errors.js";
import { decodeUtf8 } from "./utf8.js";
import { applyChange } from "./values.js";

/**
 * What all kinds have in common. An instance is a configured plugin; the host may drop it between any
 * two calls, so keep nothing in it that the next call's arguments don't bring back.
 */
export class Plugin {
  /** Takes the config, which fits the schema. Called once, before everything else. */
  configure(_config) {}
}

const missing = (plugin, method) =>
  new PluginError("internal", `\`${plugin.constructor.name}\` has no method \`${method}\`; write one`);

/** Finds the actions in a reply. */
export class Parser extends Plugin {
  /** The tools that the model is told about; none for parsers of plain text. */
  tools() {
    return [];
  }

  /** An array of actions, or a `problem`. */
  parse(_reply) {
    throw missing(this, "parse");
  }
}

/**
 * Turns outputs into the messages that the model sees. Write `observe`; the rest is done. Override
 * `format` for another shape, but answer every action that has a `toolCallId`.
 */
export class Formatter extends Plugin {
  /** The text of one observation. */
  observe(_action, _output) {
    throw missing(this, "observe");
  }

  /** One message per output, and one per tool call that was not executed. */
  format(actions, outputs) {
    const messages = [];
    actions.forEach((action, index) => {
      const { toolCallId } = action;
      if (index >= outputs.length && toolCallId === undefined) return;
      const output = outputs[index] ?? {
        output: "",
        returncode: -1,
        exceptionInfo: "action was not executed",
        extra: {},
      };
      const content = this.observe(action, output);
      messages.push(
        toolCallId === undefined ? { role: "user", content } : { role: "tool", content, toolCallId },
      );
    });
    return messages;
  }
}

/** Changes what the model sees of the history: the whole protocol. */
export class Processor extends Plugin {
  /** A change in, the change of its own view out; or a query, to ask the model first. */
  apply(_change) {
    throw missing(this, "apply");
  }

  /** The model's answer to a query. */
  resume(_reply) {
    throw new PluginError("unsupported", "this processor asks nothing, so it can't resume");
  }
}

/** Changes what the model sees of the history, as one plain function. */
export class SimpleProcessor extends Plugin {
  /** The view of the whole history. The messages are yours to change. */
  process(_history) {
    throw missing(this, "process");
  }
}

/** Judges an action before it runs. */
export class Policy extends Plugin {
  /** `allow()`, `deny(...)`, `ask(...)` or `rewrite(...)`. An error denies. */
  judge(_action) {
    throw missing(this, "judge");
  }
}

/** Speaks a model's wire format, without its I/O. `SimpleAdapter` is easier; this one can stream. */
export class Adapter extends Plugin {
  /** Starts a query; answers a request for the host to send, or a reply. */
  query(_change, _request) {
    throw missing(this, "query");
  }

  /** The response's status and headers. Each `head` starts over. */
  head(_status, _headers) {
    throw missing(this, "head");
  }

  /** The next piece of the body, cut anywhere. */
  feed(_bytes) {
    throw missing(this, "feed");
  }

  /** The body has ended. */
  finish() {
    throw missing(this, "finish");
  }
}

/** An adapter as two plain functions: the history to a request, the whole response to a reply. */
export class SimpleAdapter extends Adapter {
  #history = [];
  #response = undefined;

  /** What to send for this history. Throw a `ModelError` if there is nothing. */
  send(_history, _tools) {
    throw missing(this, "send");
  }

  /** What came back, whatever its status. Throw a `ModelError` if it is no reply. */
  receive(_response) {
    throw missing(this, "receive");
  }

  query(change, request) {
    const known = this.#history.length;
    if (change.start > known) {
      throw new ModelError(
        "bad-request",
        `the history's change begins at message ${change.start}, but only ${known} are known; this ` +
          "is a fault of the host, please report it",
      );
    }
    applyChange(change, this.#history);
    this.#response = undefined;
    return this.send([...this.#history], request.tools);
  }

  head(status, headers) {
    this.#response = { status, headers: Object.fromEntries(headers), pieces: [], length: 0 };
  }

  feed(bytes) {
    this.#response?.pieces.push(bytes);
    return [];
  }

  finish() {
    const response = this.#response;
    this.#response = undefined;
    if (response === undefined) {
      throw new ModelError("malformed-response", "a response ended that had not begun");
    }
    const { status, headers, pieces } = response;
    const body = new Uint8Array(pieces.reduce((length, piece) => length + piece.length, 0));
    let end = 0;
    for (const piece of pieces) {
      body.set(piece, end);
      end += piece.length;
    }
    return this.receive({ status, headers, body, text: () => decodeUtf8(body) });
  }
}
