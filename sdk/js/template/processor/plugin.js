// {{name}}: cuts long observations, except the latest.

import { SimpleProcessor, isObservation, textOf, withText } from "./mswea-sdk/index.js";

export default class {{pascal_name}} extends SimpleProcessor {
  static descriptor = {
    name: "{{name}}",
    version: "0.1.0",
    summary: "Cuts long observations, except the latest",
    configSchema: {
      type: "object",
      properties: {
        characters: {
          type: "integer",
          minimum: 0,
          default: 1000,
          description: "How many characters of an old observation stay",
        },
        whole: {
          type: "integer",
          minimum: 0,
          default: 2,
          description: "How many of the latest observations stay whole",
        },
      },
      additionalProperties: false,
    },
  };

  configure({ characters, whole }) {
    this.characters = characters;
    this.whole = whole;
  }

  // Gets the whole history, and returns the messages for the model. The SDK finds the differences
  // to the last view.
  process(history) {
    let old = history.filter(isObservation).length - this.whole;
    return history.map((message) => {
      if (!isObservation(message) || old-- <= 0) return message;
      const text = textOf(message);
      const leftOut = text.length - this.characters;
      if (leftOut <= 0) return message;
      return withText(message, `${text.slice(0, this.characters)}\n(${leftOut} characters left out)`);
    });
  }
}
