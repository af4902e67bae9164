// The list of runs: filter, order, groups; renewed each second.

import { ask, count, dollars, duration, each_second, el, keep_list_address, keys_box, link, list_address, moment, now, redraw, short_name } from "./tools.js";

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
const GROUPS = ["", "status", "model", "config", "environment", "folder", "program", "label"];

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

// A filter: words that a run has anywhere, and words of one of its facts: `status:sub` is contained in it,
// `status:"Submitted"` is all of it. A folder has what is in it or below.
const WORDS = new RegExp(`(${GROUPS.filter(Boolean).join("|")}):(?:"((?:[^"]|"")*)"(?!\\S)|(\\S*))|\\S+`, "gi");

const quoted = (text) => `"${text.replaceAll('"', '""')}"`;

// The word for the runs of which a fact is all of this text.
export const word_of = (fact, text) => `${fact}:${quoted(text)}`;

function is_in(it, path) {
  return path ? it.name.startsWith(path + "/") : !it.name.includes("/");
}

function filter_of(text) {
  const tests = [...text.matchAll(WORDS)].map(([word, fact, whole, part]) => {
    const name = fact?.toLowerCase();
    if (whole !== undefined) {
      const value = whole.replaceAll('""', '"');
      return (it) => (name === "folder" ? is_in(it, value) : String(it[name] ?? "") === value);
    }
    const searched = (name ? part : word).toLowerCase();
    if (name === "folder") return (it) => it.name.slice(0, it.name.lastIndexOf("/") + 1).toLowerCase().includes(searched);
    if (name) return (it) => String(it[name] ?? "").toLowerCase().includes(searched);
    return (it, all) => all.includes(searched);
  });
  return (it) => {
    const all = `${it.run} ${it.name} ${it.task} ${it.status} ${it.model} ${it.config} ${it.error} ${it.label ?? ""}`.toLowerCase();
    return tests.every((test) => test(it, all));
  };
}

// What an address of the list says.
const state_of = (values) => ({
  filter: values.get("q") ?? "",
  sort: values.get("sort") ?? "age",
  down: values.get("down") === "1",
  group: values.get("group") ?? "",
});

function address_of(state) {
  const kept = {};
  if (state.filter) kept.q = state.filter;
  if (state.sort !== "age") kept.sort = state.sort;
  if (state.down) kept.down = "1";
  if (state.group) kept.group = state.group;
  return Object.keys(kept).length ? link(kept) : "/";
}

// The runs of a list, in its order.
function picked(state) {
  const runs = [...known.runs.values()].filter(filter_of(state.filter));
  const by = COLUMNS.find(([name]) => name === state.sort) ?? COLUMNS.at(-1);
  const values = new Map(runs.map((it) => [it, by[2](it)]));
  return runs.sort((one, other) => {
    const [a, b] = [values.get(one), values.get(other)];
    const order = typeof a === "string" ? a.localeCompare(b) : a - b;
    return state.down ? -order : order;
  });
}

// Groups with their runs; the largest one is the first one.
function grouped(runs, group) {
  const groups = new Map();
  for (const it of runs) {
    const name = of_group(it, group);
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push(it);
  }
  return [...groups].sort((one, other) => other[1].length - one[1].length);
}

// The run that is so many rows after this one in the list as it was shown last; in all of them if it is not in it.
export function beside(id, by) {
  const state = state_of(new URL(list_address(), location.href).searchParams);
  const row = (runs) => (state.group ? grouped(runs, state.group).flatMap(([, of]) => of) : runs);
  let runs = row(picked(state));
  if (!runs.some((it) => it.id === id)) runs = row(picked({ ...state, filter: "" }));
  const at = runs.findIndex((it) => it.id === id);
  return at < 0 ? null : runs[at + by];
}

export function show_list(main, values, go) {
  document.title = "Runs";
  const state = { ...state_of(values), shown: SHOWN, picked: new Set() };
  keep_list_address(address_of(state));
  const filter = el("input", {
    type: "search", placeholder: "filter: words of id, task, status, model, config", value: state.filter,
    "aria-label": "filter", id: "filter", title: `also words of one fact: status:sub, status:"Submitted" (all of it); ${GROUPS.filter(Boolean).join(", ")}`,
    oninput: () => { state.filter = filter.value; state.shown = SHOWN; keep(); draw(); },
  });
  const group = el("select", { "aria-label": "group by", id: "group",
    onchange: () => { state.group = group.value; keep(); draw(); } },
    GROUPS.map((name) => el("option", { value: name, selected: name === state.group },
      name ? "by " + name : "no groups")));
  // Where the table has no head.
  const order = el("select", { id: "order", onchange: () => {
    state.sort = order.value;
    keep();
    draw();
  } }, COLUMNS.map(([name, title]) => el("option", { value: name }, title)));
  const turn = el("button", { id: "turn", "aria-label": "turn the order", onclick: () => {
    state.down = !state.down;
    keep();
    draw();
  } });
  const summary = el("p", { class: "summary", id: "summary" });
  const table = el("div", { class: "wide" });
  const compare = el("button", { hidden: true, id: "compare", onclick: () => {
    const [a, b] = state.picked;
    go(link({ a, b }));
  } }, "compare the two");
  const help = keys_box([["/", "filter"], ["R", "load again"], ["l h j k 0 $ e r q …", "in a run; ? there names them"]]);
  main.append(help,
    el("header", {}, el("h1", {}, "Runs"), filter, group,
      el("span", { class: "order" }, el("label", {}, "order ", order), turn), compare,
      el("a", { href: link({ search: "" }), id: "to-search" }, "search in all"), el("a", { href: link({ folder: "" }) }, "figures")),
    summary, table);

  function keep() {
    const url = address_of(state);
    history.replaceState(null, "", url);
    keep_list_address(url);
  }

  function draw() {
    redraw(table, fill_table);
  }

  function fill_table(were_open) {
    const runs = picked(state);
    order.value = state.sort;
    turn.textContent = state.down ? "▾" : "▴";
    const running = runs.filter((it) => it.running).length;
    summary.textContent = !known.tag ? "" : `${runs.length} of ${known.runs.size} runs`
      + (running ? ` · ${running} running` : "") + ` · ${spent(runs)}`;
    compare.hidden = state.picked.size !== 2;
    if (!state.group) {
      table.replaceChildren(rows(runs));
      return;
    }
    const first = !table.querySelector("details");
    table.replaceChildren(...grouped(runs, state.group).slice(0, 200).map(([name, of]) => {
      const mean = of.reduce((sum, it) => sum + it.steps, 0) / of.length;
      const it = el("details", { open: were_open.get(name) || (first && of.length <= 20), "data-group": name },
        el("summary", { "data-key": "group" }, el("b", {}, name),
          ` · ${of.length} runs · ${spent(of)} · ${mean.toFixed(1)} steps each `,
          state.group === "folder" && name !== "-" ? el("a", { href: link({ folder: name }), "data-key": "figures" }, "figures") : null));
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
    }, el("button", { class: "plain", "data-key": "head " + name, onclick: () => {
      state.down = state.sort === name && !state.down;
      state.sort = name;
      keep();
      draw();
    } }, title, name === state.sort ? (state.down ? " ▾" : " ▴") : "")));
    const body = runs.slice(0, state.shown).map((it) => el("tr", { class: it.running ? "running" : null },
      el("td", {}, el("input", { type: "checkbox", "aria-label": "compare", "data-key": "pick " + it.id, checked: state.picked.has(it.id),
        onchange: (event) => {
          if (event.target.checked) state.picked.add(it.id); else state.picked.delete(it.id);
          compare.hidden = state.picked.size !== 2;
        } })),
      COLUMNS.map(([name, title, , text]) => {
        const shown = text(it);
        if (name === "run") return el("td", { class: "run", title: it.run ? `${it.name} (${it.run})` : it.name }, el("a", { href: link({ run: it.id }), "data-key": "run " + it.id }, shown));
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
      more > 0 ? el("button", { "data-key": "more", onclick: () => { state.shown += 1000; draw(); } }, `${more} more`) : null,
      runs.length ? null : el("p", {}, known.runs.size ? "no run has these words"
        : known.tag ? "No runs are recorded here yet. They appear on this page when they begin." : "reading…"));
  }

  let drawn = 0;
  let stale = false;
  draw();
  const stop = each_second(async () => {
    const changed = await renew();
    // Ages go on, too. What is being selected or clicked is left alone.
    stale ||= changed;
    const busy = String(getSelection()).length > 0 || table.matches(":active");
    if ((stale || now() - drawn > 10) && !busy) {
      drawn = now();
      stale = false;
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
