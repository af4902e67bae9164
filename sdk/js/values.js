// Small makers and readers of values. The values themselves are plain objects; index.d.ts has them.

/** What the model did wrong, for the model to read; parsers return it. */
export const problem = (code, message, details = {}) => ({ code, message, details });

/** Run the action. */
export const allow = () => ({ type: "allow" });

/** Do not run it, and tell the model this. */
export const deny = (message, code = "") => ({ type: "deny", message, code });

/** Ask the person, giving this reason. */
export const ask = (message, code = "") => ({ type: "ask", message, code });

/** Run this instead. */
export const rewrite = (action) => ({ type: "rewrite", action });

/** The value of a header that the host fills in: `prefix`, then the secret of that name. */
export const secret = (name, prefix = "") => ({ secret: name, prefix });

/** The text parts of a message, joined. */
export function textOf(message) {
  const { content } = message;
  if (typeof content === "string") return content;
  // Nearly always there is one part; joining would copy it.
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

/** Whether a message is an observation: what came of a command. */
export function isObservation(message) {
  return message.role === "tool" || (message.role === "user" && "returncode" in (message.extra ?? {}));
}

/** Lays a change over a list of messages. */
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
