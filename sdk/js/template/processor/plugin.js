// {{name}}: cuts long observations, but for the latest.

import { SimpleProcessor, isObservation, textOf, withText } from "./mswea-sdk/index.js";

export default class {{pascal_name}} extends SimpleProcessor {
  static descriptor = {
    name: "{{name}}",
    version: "0.1.0",
    summary: "Cuts long observations, but for the latest",
    configSchema: {
      type: "object",
      properties: {
        characters: {
          type: "integer",
          minimum: 0,
          default: 1000,
          description: "How much of an old observation is left",
        },
        whole: {
          type: "integer",
          minimum: 0,
          default: 2,
          description: "How many of the latest stay whole",
        },
      },
      additionalProperties: false,
    },
  };

  configure({ characters, whole }) {
    this.characters = characters;
    this.whole = whole;
  }

  // The whole history in, what the model shall see of it out. What changed is found out for you.
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
