// Search in the texts of all runs. The server stops after some time, and the page may go on from there.

import { ask, el, link, list_address, short_name } from "./tools.js";

export function show_search(main, values) {
  document.title = "Search";
  const state = { cursor: 0, found: 0, asked: 0 };
  const input = el("input", { type: "search", id: "query", value: values.get("search") ?? "", placeholder: "text in any run", "aria-label": "search" });
  const regex = el("input", { type: "checkbox", id: "regex", checked: values.get("regex") === "1" });
  const told = el("p", { class: "summary", id: "told" });
  const list = el("div", { id: "found" });
  const more = el("button", { hidden: true, onclick: () => look() }, "search further");
  const form = el("header", {}, el("a", { href: list_address() }, "← runs"), input, el("label", {}, regex, " regex"),
    el("button", { id: "look", onclick: () => begin() }, "search"));
  main.append(form, told, list, more);
  input.addEventListener("keydown", (event) => { if (event.key === "Enter") begin(); });

  function begin() {
    Object.assign(state, { cursor: 0, found: 0 });
    list.replaceChildren();
    const kept = { search: input.value };
    if (regex.checked) kept.regex = "1";
    history.replaceState(null, "", link(kept));
    if (input.value) look();
  }

  async function look() {
    const asked = ++state.asked;
    told.textContent = "searching…";
    more.hidden = true;
    try {
      const { value } = await ask("/api/search", { q: input.value, regex: regex.checked ? 1 : 0, cursor: state.cursor });
      if (asked !== state.asked) return;
      for (const run of value.runs) {
        list.append(el("section", { class: "step" },
          el("h3", {}, el("a", { href: link({ run: run.id }) }, short_name(run.name)), el("span", { class: "soft" }, run.task)),
          run.hits.map((hit) => el("div", { class: "hit-text" },
            el("a", { href: link({ run: run.id }, `#step-${hit.step}`) }, `step ${hit.step}`), ` ${hit.part} `,
            el("pre", { class: "output" }, hit.before, el("mark", {}, hit.match), hit.after)))));
        state.found += run.hits.length;
      }
      state.cursor = value.cursor;
      told.textContent = `${state.found} places found · ${value.cursor} of ${value.total} runs searched`
        + (value.skipped ? ` · ${value.skipped} could not be searched whole` : "");
      more.hidden = value.cursor >= value.total;
    } catch (error) {
      told.textContent = error.message;
    }
  }

  input.focus();
  if (input.value) look();
  return () => { state.asked += 1; };
}
