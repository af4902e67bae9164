// What all parts of the page use: elements, requests, numbers as text.
// Text from outside becomes a text node, here and nowhere else.

export function el(name, attributes, ...children) {
  const svg = ["svg", "rect", "line", "circle", "text", "title", "path", "g"].includes(name);
  const it = svg && attributes?.svg
    ? document.createElementNS("http://www.w3.org/2000/svg", name)
    : document.createElement(name);
  for (const [key, value] of Object.entries(attributes ?? {})) {
    if (key === "svg" || value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) it.addEventListener(key.slice(2), value);
    else it.setAttribute(key, value === true ? "" : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    it.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return it;
}

export const svg = (name, attributes, ...children) =>
  el(name, { ...attributes, svg: true }, ...children);

export function notice(text) {
  const it = document.getElementById("notice");
  it.textContent = text ?? "";
  it.hidden = !text;
}

// The answer, or null if nothing has changed since `tag`.
export async function ask(path, values, tag) {
  const url = path + "?" + new URLSearchParams(values ?? {});
  let answer;
  try {
    answer = await fetch(url, { headers: tag ? { "If-None-Match": tag } : {} });
  } catch {
    throw new Error("the server has ended: start `mswea-host view` again");
  }
  if (answer.status === 304) return null;
  if (!answer.ok) {
    const why = await answer.json().catch(() => ({}));
    throw new Error(why.message ?? `the server answers ${answer.status}`);
  }
  return { tag: answer.headers.get("ETag"), value: await answer.json() };
}

export const link = (values, hash) => "/?" + new URLSearchParams(values) + (hash ?? "");

// The address of the list as it was shown last, with its filter, order and groups; of this window, also after a
// new load.
const LIST = "list";
export function list_address() {
  try {
    return sessionStorage.getItem(LIST) ?? "/";
  } catch {
    return "/";
  }
}
export function keep_list_address(url) {
  try {
    sessionStorage.setItem(LIST, url);
  } catch {
    // A browser that keeps nothing leads back to the whole list.
  }
}

// Draws anew what is in `box`. What had the focus has it again, by its `data-key` and its group; groups that were open
// or closed stay so.
export function redraw(box, draw) {
  const place = (it) => JSON.stringify([it.closest("details")?.dataset.group, it.dataset.key]);
  const focused = box.contains(document.activeElement) && document.activeElement.dataset.key ? place(document.activeElement) : null;
  const groups = new Map([...box.querySelectorAll("details[data-group]")].map((it) => [it.dataset.group, it.open]));
  draw(groups);
  if (!focused || box.contains(document.activeElement)) return;
  [...box.querySelectorAll("[data-key]")].find((it) => place(it) === focused)?.focus({ preventScroll: true });
}

export const dollars = (cost) =>
  cost === null || cost === undefined ? "?" : "$" + cost.toFixed(cost < 10 ? 4 : 2);

export function count(number) {
  if (!number) return "0";
  if (number < 10000) return String(number);
  if (number < 1e6) return (number / 1e3).toFixed(0) + "k";
  return (number / 1e6).toFixed(1) + "M";
}

export function duration(seconds) {
  if (!Number.isFinite(seconds)) return "?";
  const s = Math.max(0, seconds);
  if (s > 0 && s < 0.0995) return Math.ceil(s * 1000) + " ms";
  if (s < 10) return s.toFixed(1) + " s";
  if (s < 100) return s.toFixed(0) + " s";
  if (s < 6000) return Math.floor(s / 60) + " min";
  if (s < 172800) return Math.floor(s / 3600) + " h";
  return Math.floor(s / 86400) + " d";
}

export const now = () => Date.now() / 1000;

// The zone is the browser's, and is named.
const MOMENT = { year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", timeZoneName: "short" };
export const moment = (seconds) => (seconds ? new Date(seconds * 1000).toLocaleString(undefined, MOMENT) : "");

// The file of a run without what all have: a batch has each of its runs in a folder of the same name.
export const short_name = (name) => name.replace(/(\.events\.jsonl|\.traj\.json|\.traj|\.atif\.json)$/, "").replace(/(^|\/)([^/]+)\/\2$/, "$1$2");

// The keys, in a box that any click closes.
export function keys_box(keys) {
  const box = el("dialog", { id: "help", onclick: () => box.close() }, el("table", {}, keys.map(([key, text]) =>
    el("tr", {}, el("td", {}, el("b", {}, key)), el("td", {}, text)))), el("button", {}, "close"));
  return box;
}

// Calls `work` each second while the part of the page is shown; a hidden window waits longer.
export function each_second(work) {
  let over = false;
  let pause = 1000;
  const turn = async () => {
    if (over) return;
    try {
      await work();
      notice(null);
      pause = document.hidden ? 5000 : 1000;
    } catch (error) {
      if (!over) notice(error.message);
      pause = Math.min(15000, pause * 2);
    }
    if (!over) setTimeout(turn, pause);
  };
  turn();
  return () => { over = true; };
}
