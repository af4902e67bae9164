// The label and the note of a run, which the server keeps in a file.

import { ask, el } from "./tools.js";

export function note_box(id) {
  const label = el("input", { type: "text", id: "label", maxlength: 60, placeholder: "label", "aria-label": "label" });
  const note = el("textarea", { id: "note", maxlength: 20000, placeholder: "note", "aria-label": "note" });
  const told = el("span", { class: "soft", id: "kept" });
  const box = el("details", { id: "notes" }, el("summary", {}, "label and note"), label, note,
    el("button", { id: "keep", onclick: keep }, "keep"), " ", told);

  async function load() {
    const { value } = await ask("/api/note", { id });
    label.value = value.label;
    note.value = value.note;
    box.open = Boolean(value.label || value.note);
  }

  async function keep() {
    const answer = await fetch("/api/note?" + new URLSearchParams({ id }), {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ label: label.value, note: note.value }),
    });
    const why = answer.ok ? null : (await answer.json().catch(() => ({}))).message;
    told.textContent = answer.ok ? "kept" : why ?? `not kept: ${answer.status}`;
  }

  load().catch((error) => { told.textContent = error.message; });
  return box;
}
