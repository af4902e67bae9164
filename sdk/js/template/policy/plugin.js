// {{name}}: denies commands that publish work, and asks about commands that delete it.

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
    summary: "Denies commands that publish work, and asks about commands that delete it",
    configSchema: {
      type: "object",
      properties: {
        deny: patterns(["\\bgit\\s+push\\b"], "Commands that match one of these are denied"),
        ask: patterns(["\\brm\\s+-\\w*r"], "Before commands that match one of these the user is asked"),
      },
      additionalProperties: false,
    },
  };

  // The patterns are compiled here, once, so that an invalid pattern is an error at the start.
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
        `\`${text}\` is not a regular expression: ${error.message}; correct it or leave it out`,
        `/${key}/${place}`,
      );
    }
  });
