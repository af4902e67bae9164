// {{name}}: refuses what would publish work, and asks about what deletes it.

import { PluginError, Policy, allow, ask, deny } from "./mswea-sdk/index.js";

const patterns = (defaults, description) => ({
  type: "array",
  items: { type: "string" },
  default: defaults,
  description,
});

export default class {{pascal_name}} extends Policy {
  static descriptor = {
    name: "{{name}}",
    version: "0.1.0",
    summary: "Refuses what would publish work, and asks about what deletes it",
    configSchema: {
      type: "object",
      properties: {
        deny: patterns(["\\bgit\\s+push\\b"], "Commands with such a part are refused"),
        ask: patterns(["\\brm\\s+-\\w*r"], "Commands with such a part are asked about"),
      },
      additionalProperties: false,
    },
  };

  // Compiled here, once, so that a bad pattern is known at the start.
  configure(config) {
    this.deny = compiled(config, "deny");
    this.ask = compiled(config, "ask");
  }

  judge({ command }) {
    for (const pattern of this.deny) {
      if (pattern.test(command)) return deny(`\`${pattern.source}\` is not allowed here.`, "denied");
    }
    for (const pattern of this.ask) {
      if (pattern.test(command)) return ask(`it matches \`${pattern.source}\``, "asked");
    }
    return allow();
  }
}

const compiled = (config, key) =>
  config[key].map((text, place) => {
    try {
      return new RegExp(text);
    } catch (error) {
      throw PluginError.invalidConfig(
        `\`${text}\` is no regular expression: ${error.message}; mend it or leave it out`,
        `/${key}/${place}`,
      );
    }
  });
