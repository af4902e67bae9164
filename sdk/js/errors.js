// Errors of plugins and providers. For an error of the *model*, return a `problem` or a `deny`.

/** A fault of the plugin, its config or its input. The user gets the message. */
export class PluginError extends Error {
  constructor(code, message, extra = {}) {
    super(message);
    this.name = "PluginError";
    this.code = code;
    this.extra = extra;
  }

  /** The config is wrong. `pointer` is the JSON pointer of the value (`/limit`). */
  static invalidConfig(message, pointer) {
    return new PluginError("invalid-config", message, pointer === undefined ? {} : { pointer });
  }

  /** The host's input is invalid. */
  static invalidInput(message) {
    return new PluginError("invalid-input", message);
  }
}

/** The reason why there is no reply; adapters throw it. */
export class ModelError extends Error {
  constructor(modelClass, message, { retryAfterMs, usage, extra } = {}) {
    super(message);
    this.name = "ModelError";
    this.class = modelClass;
    this.retryAfterMs = retryAfterMs;
    this.usage = usage;
    this.extra = extra ?? {};
  }
}
