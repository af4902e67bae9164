// Faults, and whose they are. What the *model* did wrong is a `problem` or a `deny`, no error.

/** A fault of the plugin, its config or its input, for the user to read. */
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

  /** What the host handed over makes no sense. */
  static invalidInput(message) {
    return new PluginError("invalid-input", message);
  }
}

/** Why there is no reply; adapters throw it. */
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
