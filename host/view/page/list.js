// The list of runs: filter, order, groups; renewed each second.

import { ask, count, dollars, duration, each_second, el, keys_box, link, moment, now, short_name } from "./tools.js";

const SHOWN = 300;

// Name, title, value to sort by, text.
const COLUMNS = [
  ["run", "Run", (it) => it.name, (it) => short_name(it.name)],
  ["task", "Task", (it) => it.task, (it) => it.task],
  ["status", "Status", (it) => it.status, (it) => it.status],
  ["model", "Model", (it) => it.model, (it) => it.model],
  ["config", "Config", (it) => it.config ?? "", (it) => (it.config ?? "").split(" ")[0]],
  ["steps", "Steps", (it) => it.steps, (it) => it.steps],
  ["cost", "Cost", (it) => it.cost ?? -1, (it) => dollars(it.cost)],
  ["tokens", "Tokens", (it) => it.input + it.output, (it) => count(it.input + it.output)],
  ["took", "Took", (it) => took(it) ?? -1, (it) => duration(took(it))],
  ["age", "Age", (it) => -(it.started ?? 0), (it) => (it.started ? duration(now() - it.started) : "?")],
];
const NUMBERS = ["steps", "cost", "tokens", "took", "age"];
const GROUPS = ["", "status", "model", "config", "environment", "folder", "program"];

// Null if no times are recorded.
export const took = (it) => (it.started && (it.running || it.last) ? (it.running ? now() : it.last) - it.started : null);

// What runs have cost together, as far as it is known.
export function spent(runs) {
  const known = runs.filter((it) => it.cost !== null);
  if (runs.length && !known.length) return "cost unknown";
  const sum = dollars(known.reduce((all, it) => all + it.cost, 0));
  const unknown = runs.length - known.length;
  return unknown ? `at least ${sum}, ${unknown} ${unknown === 1 ? "run" : "runs"} without a known price` : sum;
}
const folder = (it) => it.name.includes("/") ? it.name.slice(0, it.name.indexOf("/")) : "";
const of_group = (it, group) => (group === "folder" ? folder(it) : it[group]) || "-";

// Kept while the page is open: going back to the list is at once.
const known = { runs: new Map(), revision: 0, tag: null };

export async function renew() {
  const answer = await ask("/api/runs", { since: known.revision }, known.tag);
  if (!answer) return false;
  const { value, tag } = answer;
  if (value.whole) known.runs.clear();
  for (const id of value.gone) known.runs.delete(id);
  for (const run of value.runs) known.runs.set(run.id, run);
  known.revision = value.revision;
  known.tag = tag;
  return true;
}

export const all_runs = () => known.runs;

export function matches(it, words) {
  const text = `${it.run} ${it.name} ${it.task} ${it.status} ${it.model} ${it.config} ${it.error} ${it.label ?? ""}`
    .toLowerCase();
  return words.every((word) => text.includes(word));
}

export function show_list(main, values, go) {
  document.title = "Runs";
  const state = {
    filter: values.get("q") ?? "",
    sort: values.get("sort") ?? "age",
    down: values.get("down") === "1",
    group: values.get("group") ?? "",
    shown: SHOWN,
    picked: new Set(),
  };
  const filter = el("input", {
    type: "search", placeholder: "filter: words of id, task, status, model, config", value: state.filter,
    "aria-label": "filter", id: "filter",
    oninput: () => { state.filter = filter.value; state.shown = SHOWN; keep(); draw(); },
  });
  const group = el("select", { "aria-label": "group by", id: "group",
    onchange: () => { state.group = group.value; keep(); draw(); } },
    GROUPS.map((name) => el("option", { value: name, selected: name === state.group },
      name ? "by " + name : "no groups")));
  const summary = el("p", { class: "summary", id: "summary" });
  const table = el("div", { class: "wide" });
  const compare = el("button", { hidden: true, id: "compare", onclick: () => {
    const [a, b] = state.picked;
    go(link({ a, b }));
  } }, "compare the two");
  const help = keys_box([["/", "filter"], ["R", "load again"], ["l h j k 0 $ e r q …", "in a run; ? there names them"]]);
  main.append(help,
    el("header", {}, el("h1", {}, "Runs"), filter, group, compare,
      el("a", { href: link({ search: "" }), id: "to-search" }, "search in all"), el("a", { href: link({ folder: "" }) }, "figures")),
    summary, table);

  function keep() {
    const kept = {};
    if (state.filter) kept.q = state.filter;
    if (state.sort !== "age") kept.sort = state.sort;
    if (state.down) kept.down = "1";
    if (state.group) kept.group = state.group;
    history.replaceState(null, "", Object.keys(kept).length ? link(kept) : "/");
  }

  function picked() {
    const words = state.filter.toLowerCase().split(/\s+/).filter(Boolean);
    const runs = [...known.runs.values()].filter((it) => matches(it, words));
    const by = COLUMNS.find(([name]) => name === state.sort) ?? COLUMNS[8];
    const values = new Map(runs.map((it) => [it, by[2](it)]));
    runs.sort((one, other) => {
      const [a, b] = [values.get(one), values.get(other)];
      const order = typeof a === "string" ? a.localeCompare(b) : a - b;
      return state.down ? -order : order;
    });
    return runs;
  }

  function draw() {
    const runs = picked();
    const running = runs.filter((it) => it.running).length;
    summary.textContent = !known.tag ? "" : `${runs.length} of ${known.runs.size} runs`
      + (running ? ` · ${running} running` : "") + ` · ${spent(runs)}`;
    compare.hidden = state.picked.size !== 2;
    if (!state.group) {
      table.replaceChildren(rows(runs));
      return;
    }
    const groups = new Map();
    for (const it of runs) {
      const name = of_group(it, state.group);
      if (!groups.has(name)) groups.set(name, []);
      groups.get(name).push(it);
    }
    const open = new Set([...table.querySelectorAll("details[open]")].map((it) => it.dataset.group));
    const first = !table.querySelector("details");
    const sorted = [...groups].sort((one, other) => other[1].length - one[1].length);
    table.replaceChildren(...sorted.slice(0, 200).map(([name, of]) => {
      const mean = of.reduce((sum, it) => sum + it.steps, 0) / of.length;
      const it = el("details", { open: open.has(name) || (first && of.length <= 20) },
        el("summary", {}, el("b", {}, name),
          ` · ${of.length} runs · ${spent(of)} · ${mean.toFixed(1)} steps each `,
          state.group === "folder" && name !== "-" ? el("a", { href: link({ folder: name }) }, "figures") : null));
      it.dataset.group = name;
      const fill = () => { if (it.open && it.children.length === 1) it.append(rows(of)); };
      it.addEventListener("toggle", fill);
      fill();
      return it;
    }));
  }

  function rows(runs) {
    const head = COLUMNS.map(([name, title]) => el("th", {
      class: NUMBERS.includes(name) ? "number" : null,
      "aria-sort": name === state.sort ? (state.down ? "descending" : "ascending") : null,
    }, el("button", { class: "plain", onclick: () => {
      state.down = state.sort === name && !state.down;
      state.sort = name;
      keep();
      draw();
    } }, title, name === state.sort ? (state.down ? " ▾" : " ▴") : "")));
    const body = runs.slice(0, state.shown).map((it) => el("tr", { class: it.running ? "running" : null },
      el("td", {}, el("input", { type: "checkbox", "aria-label": "compare", checked: state.picked.has(it.id),
        onchange: (event) => {
          if (event.target.checked) state.picked.add(it.id); else state.picked.delete(it.id);
          compare.hidden = state.picked.size !== 2;
        } })),
      COLUMNS.map(([name, title, , text]) => {
        const shown = text(it);
        if (name === "run") return el("td", { class: "run", title: it.run ? `${it.name} (${it.run})` : it.name }, el("a", { href: link({ run: it.id }) }, shown));
        if (name === "status") return el("td", {}, badge(it), it.label ? el("span", { class: "label" }, it.label) : null);
        if (name === "config") return el("td", { "data-title": title, title: it.config }, shown);
        if (name === "age") return el("td", { class: "number", "data-title": title, title: moment(it.started) }, shown);
        if (name === "task") return el("td", { class: "task", title: [shown, it.error].filter(Boolean).join("\n\n") || null },
          el("div", {}, shown), it.error ? el("small", { class: "error" }, it.error) : null);
        return el("td", { class: NUMBERS.includes(name) ? "number" : null, "data-title": title }, shown);
      })));
    const more = runs.length - state.shown;
    return el("div", {},
      known.runs.size ? el("table", { class: "runs" },
        el("thead", {}, el("tr", {}, el("th"), head)),
        el("tbody", {}, body)) : null,
      more > 0 ? el("button", { onclick: () => { state.shown += 1000; draw(); } }, `${more} more`) : null,
      runs.length ? null : el("p", {}, known.runs.size ? "no run has these words"
        : known.tag ? "No runs are recorded here yet. They appear on this page when they begin." : "reading…"));
  }

  let drawn = 0;
  draw();
  const stop = each_second(async () => {
    const changed = await renew();
    // Ages go on, too. What is being selected is left alone.
    const busy = String(getSelection()).length > 0;
    if ((changed || now() - drawn > 10) && !busy) {
      drawn = now();
      draw();
    }
  });
  const keys = (event) => {
    if (event.target.matches("input, select, textarea")) return;
    if (event.key === "/") { event.preventDefault(); filter.focus(); }
    if (event.key === "R") location.reload();
    if (event.key === "?") (help.open ? help.close() : help.showModal());
  };
  document.addEventListener("keydown", keys);
  return () => { stop(); document.removeEventListener("keydown", keys); };
}

export const badge = (it) => el("span", {
  class: "badge " + (it.running ? "going" : it.status.toLowerCase() === "submitted" ? "good"
    : ["LimitsExceeded", "TimeExceeded", "Interrupted", "unfinished", "killed"].includes(it.status) ? "fair" : "bad"),
}, it.status || "-");
