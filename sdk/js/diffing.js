// A `SimpleProcessor` that speaks the protocol of changes.

import { PluginError } from "./errors.js";
import { array, isUnchanged, messageIn, messageOut, sameMessage } from "./wire.js";

/**
 * Keeps the history, lays the host's changes over it, and sends back only those messages of the view
 * that differ from the last one.
 *
 * What it keeps are the component's own messages, of which `process` gets copies: one that changes its
 * messages in place would otherwise see another history than a fresh instance.
 */
export class Diffing {
  constructor(inner) {
    this.inner = inner;
    this.history = [];
    this.view = [];
  }

  /** The component's change in, the component's change out. */
  apply(change) {
    const { history } = this;
    if (change.start > history.length) {
      throw PluginError.invalidInput(
        `a change starts at message ${change.start}, but only ${history.length} are known; send the ` +
          "whole history with `start` 0",
      );
    }
    // After `start` 0 the host knows nothing of an earlier view.
    const old = change.start === 0 ? [] : this.view;
    history.length = change.start;
    for (const message of change.messages) history.push(message);
    const view = array(this.inner.process(history.map(messageIn)), "what `process` returns").map(
      (message, index) => {
        const before = old[index];
        return before !== undefined && isUnchanged(message, before) ? before : messageOut(message);
      },
    );
    this.view = view;
    return spread(old, view);
  }
}

/** The change that makes `old` into `view`, with `places` if something in between is the same. */
function spread(old, view) {
  const places = [];
  view.forEach((message, index) => {
    const before = old[index];
    if (message !== before && (before === undefined || !sameMessage(message, before))) places.push(index);
  });
  // A part at the end fell away, or nothing changed at all.
  if (places.length === 0) return { start: view.length, messages: [], extra: undefined };
  const last = view.length - 1;
  // Behind the last place there is nothing: it has to be the view's last message.
  if (places[places.length - 1] !== last) places.push(last);
  const inOneGo = last - places[0] < places.length;
  return {
    start: places[0],
    messages: places.map((place) => view[place]),
    extra: inOneGo ? undefined : JSON.stringify({ places }),
  };
}
