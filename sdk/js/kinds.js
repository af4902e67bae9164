// The base classes of plugins: one class per kind.

import { ModelError, PluginError } from "./errors.js";
import { decodeUtf8 } from "./utf8.js";
import { applyChange } from "./values.js";

/**
 * The base class of all kinds. An instance is a configured plugin. The host may drop it between any
 * two calls, so keep only state that can be computed again from the next call's arguments.
 */
export class Plugin {
  /** Gets the config, which fits the schema. Called once, before all other methods. */
  configure(_config) {}
}

const missing = (plugin, method) =>
  new PluginError("internal", `\`${plugin.constructor.name}\` has no method \`${method}\`; write one`);

/** Finds the actions in a reply. */
export class Parser extends Plugin {
  /** The tools that are offered to the model; none for parsers of plain text. */
  tools() {
    return [];
  }

  /** Returns an array of actions, or a `problem`. */
  parse(_reply) {
    throw missing(this, "parse");
  }
}

/**
 * Makes messages for the model from outputs. Define `observe`. To make other messages, override
 * `format`; for every action with a `toolCallId` there must be a message of role `tool` with this
 * id.
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

/** Computes the view of the history that the model gets: the whole protocol. */
export class Processor extends Plugin {
  /** Gets a change of the history. Returns the change of the view, or a query to the model. */
  apply(_change) {
    throw missing(this, "apply");
  }

  /** Gets the model's reply to a query. */
  resume(_reply) {
    throw new PluginError("unsupported", "this processor sends no queries, so it can't resume");
  }
}

/** Computes the view of the history that the model gets, in one function. */
export class SimpleProcessor extends Plugin {
  /** Returns the view of the whole history. The messages are copies and may be changed. */
  process(_history) {
    throw missing(this, "process");
  }
}

/** Judges an action before it runs. */
export class Policy extends Plugin {
  /** Returns `allow()`, `deny(...)`, `ask(...)` or `rewrite(...)`. After an error the host denies the action. */
  judge(_action) {
    throw missing(this, "judge");
  }
}

/** Implements a model's wire format, without I/O. `SimpleAdapter` is easier; this class can handle streams. */
export class Adapter extends Plugin {
  /** Starts a query; returns a request for the host to send, or a reply. */
  query(_change, _request) {
    throw missing(this, "query");
  }

  /** Gets the status and the headers of a response. With each `head` a new response begins. */
  head(_status, _headers) {
    throw missing(this, "head");
  }

  /** Gets the next piece of the body, which may be cut anywhere. */
  feed(_bytes) {
    throw missing(this, "feed");
  }

  /** Called when the body has ended. */
  finish() {
    throw missing(this, "finish");
  }
}

/** An adapter as two functions: from the history to a request, from the whole response to a reply. */
export class SimpleAdapter extends Adapter {
  #history = [];
  #response = undefined;

  /** Returns the request for a history. Throw a `ModelError` if no request can be made. */
  send(_history, _tools) {
    throw missing(this, "send");
  }

  /** Returns the reply in a response of any status. Throw a `ModelError` if it has no reply. */
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
