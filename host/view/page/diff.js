// A patch in colours.

import { el } from "./tools.js";

const LINES = 3000;

export const is_patch = (text) =>
  /^(diff --git |--- .+\n\+\+\+ )/m.test(text.slice(0, 20000)) && /^@@ /m.test(text);

function kind(line, in_hunk) {
  if (line.startsWith("diff --git ")) return "file";
  if (!in_hunk && /^(---|\+\+\+|index|new file|deleted file|rename|similarity|old mode|new mode)/.test(line)) return "soft";
  if (line.startsWith("@@")) return "place";
  if (in_hunk && line.startsWith("+")) return "add";
  if (in_hunk && line.startsWith("-")) return "remove";
  return null;
}

// What a program has printed before or after the hunks is no part of them.
const is_outside = (line) => line !== "" && !/^[ +\-\\@]/.test(line);

export function diff_box(text) {
  const lines = text.replace(/\n$/, "").split("\n");
  const box = el("div", { class: "diff" });
  let at = 0;
  let in_hunk = false;
  const more = (count) => {
    const part = lines.slice(at, at + count).map((line) => {
      if (is_outside(line)) in_hunk = false;
      const is = kind(line, in_hunk);
      if (is === "place") in_hunk = true;
      return el("div", { class: is }, line || " ");
    });
    at += count;
    box.append(...part);
    if (at < lines.length) {
      const button = el("button", { onclick: () => { button.remove(); more(20000); } },
        `${lines.length - at} more lines`);
      box.append(button);
    }
  };
  more(LINES);
  return box;
}

// Files, lines added, lines removed.
export function diff_facts(text) {
  let [files, add, remove] = [0, 0, 0];
  let in_hunk = false;
  for (const line of text.split("\n")) {
    if (is_outside(line)) in_hunk = false;
    if (line.startsWith("diff --git ")) files += 1;
    const is = kind(line, in_hunk);
    if (is === "place") in_hunk = true;
    if (in_hunk && is === "add") add += 1;
    if (in_hunk && is === "remove") remove += 1;
  }
  return `${files > 1 ? files + " files" : "1 file"}, +${add} −${remove}`;
}
