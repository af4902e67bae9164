// Implements the protocol of changes for a `SimpleProcessor`.

import { PluginError } from "./errors.js";
import { array, isUnchanged, messageIn, messageOut, sameMessage } from "./wire.js";

/**
 * Keeps the history, applies the host's changes to it, and returns only those messages of the view
 * that differ from the last view.
 *
 * It keeps the component's own messages and passes copies to `process`. Otherwise a `process` that
 * changes its messages in place would get another history than on a fresh instance.
 */
export class Diffing {
  constructor(inner) {
    this.inner = inner;
    this.history = [];
    this.view = [];
  }

  /** Applies a change of the history, in the component's form. Returns the change of the view, in the same form. */
  apply(change) {
    const { history } = this;
    if (change.start > history.length) {
      throw PluginError.invalidInput(
        `a change starts at message ${change.start}, but only ${history.length} are known; send the ` +
          "whole history with `start` 0",
      );
    }
    // After `start` 0 the host has no earlier view.
    const old = change.start === 0 ? [] : this.view;
    history.length = change.start;
    for (const message of change.messages) history.push(message);
    const view = array(this.inner.process(history.map(messageIn)), "the result of `process`").map(
      (message, index) => {
        const before = old[index];
        return before !== undefined && isUnchanged(message, before) ? before : messageOut(message);
      },
    );
    this.view = view;
    return spread(old, view);
  }
}

/** The change that makes `old` into `view`, with `places` if there are unchanged messages in between. */
function spread(old, view) {
  const places = [];
  view.forEach((message, index) => {
    const before = old[index];
    if (message !== before && (before === undefined || !sameMessage(message, before))) places.push(index);
  });
  // Only messages at the end were removed, or nothing has changed.
  if (places.length === 0) return { start: view.length, messages: [], extra: undefined };
  const last = view.length - 1;
  // The view ends with the last of the places, so this must be the view's last message.
  if (places[places.length - 1] !== last) places.push(last);
  const inOneGo = last - places[0] < places.length;
  return {
    start: places[0],
    messages: places.map((place) => view[place]),
    extra: inOneGo ? undefined : JSON.stringify({ places }),
  };
}
