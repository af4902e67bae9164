// Functions that make and read values. The values are plain objects; index.d.ts documents them.

/** The model's error; the model gets the message. Parsers return it. */
export const problem = (code, message, details = {}) => ({ code, message, details });

/** Run the action. */
export const allow = () => ({ type: "allow" });

/** Do not run the action; the model gets the message. */
export const deny = (message, code = "") => ({ type: "deny", message, code });

/** Ask the user to confirm the action, for this reason. */
export const ask = (message, code = "") => ({ type: "ask", message, code });

/** Run this action instead. */
export const rewrite = (action) => ({ type: "rewrite", action });

/** A header's value that the host fills in: `prefix`, then the secret with this name. */
export const secret = (name, prefix = "") => ({ secret: name, prefix });

/** The text parts of a message, joined. */
export function textOf(message) {
  const { content } = message;
  if (typeof content === "string") return content;
  // Nearly every message has one part; joining would copy it.
  if (content?.length === 1 && content[0].type === "text") return content[0].text;
  let text = "";
  for (const part of content ?? []) if (part.type === "text") text += part.text;
  return text;
}

/** The message with another text; other parts, and everything else, stay. */
export function withText(message, text) {
  const { content } = message;
  const others = Array.isArray(content) ? content.filter((part) => part.type !== "text") : [];
  return { ...message, content: [{ type: "text", text }, ...others] };
}

/** Whether a message is an observation, the output of a command. */
export function isObservation(message) {
  return message.role === "tool" || (message.role === "user" && "returncode" in (message.extra ?? {}));
}

/** Applies a change to a list of messages. */
export function applyChange(change, list) {
  const { start, messages = [], extra } = change;
  const places = extra?.places;
  if (!Array.isArray(places)) {
    list.splice(start, list.length, ...messages);
    return list;
  }
  let end = start;
  places.forEach((place, index) => {
    list[place] = messages[index];
    end = place + 1;
  });
  list.length = end;
  return list;
}
