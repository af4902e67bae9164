// The runs of a folder together: statuses, cost against steps, failures of the same kind.

import { ask, count, dollars, duration, each_second, el, link, list_address, now, redraw, short_name, svg } from "./tools.js";
import { all_runs, badge, renew, spent, took, word_of } from "./list.js";

const [W, H, PAD] = [420, 220, 34];

// Of the values that are known; null if none is.
const median = (values) => {
  const sorted = values.filter((it) => it !== null).sort((a, b) => a - b);
  return sorted.length ? sorted[Math.floor(sorted.length / 2)] : null;
};

// The runs that have a value, and a title that says how many have none.
const known = (title, runs, of) => {
  const left = runs.filter((it) => of(it) !== null);
  const without = runs.length - left.length;
  return [without ? `${title} (not of ${without} without a known one)` : title, left];
};

function add(groups, name, it) {
  const of = groups.get(name);
  if (of) of.push(it);
  else groups.set(name, [it]);
}

// An error without what differs from run to run.
export const kind_of = (error) => error
  .replace(/0x[0-9a-f]+|[0-9a-f]{12,}/gi, "…")
  .replace(/\d+/g, "N")
  .replace(/(["'`]).*?\1/g, "$1…$1")
  .slice(0, 160);

function plot(title, runs, x, y, x_text, y_text, go) {
  if (!runs.length) return "";
  const [most_x, most_y] = [Math.max(...runs.map(x), 1e-9), Math.max(...runs.map(y), 1e-9)];
  const at = (it) => [PAD + (x(it) / most_x) * (W - PAD - 8), H - PAD - (y(it) / most_y) * (H - PAD - 22)];
  const dots = runs.slice(0, 5000).map((it) => {
    const [cx, cy] = at(it);
    const off = it.status.toLowerCase() !== "submitted" && !it.running;
    return svg("circle", { class: "dot" + (off ? " off" : ""), cx, cy, r: 3.5, onclick: () => go(link({ run: it.id })) },
      svg("title", {}, `${it.name}: ${x_text(x(it))}, ${y_text(y(it))}, ${it.status}`));
  });
  return el("figure", {}, el("figcaption", {}, title), svg("svg", { width: W, height: H, viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": title },
    svg("line", { x1: PAD, y1: H - PAD, x2: W, y2: H - PAD }), svg("line", { x1: PAD, y1: 0, x2: PAD, y2: H - PAD }),
    svg("text", { x: W, y: H - PAD + 14, "text-anchor": "end" }, x_text(most_x)),
    svg("text", { x: PAD + 4, y: 12 }, y_text(most_y)), dots));
}

// How many runs have how much of something. A bar of whole numbers has as many of them as the others.
function distribution(title, runs, of, text, is_whole) {
  if (!runs.length) return "";
  const values = runs.map(of);
  const wanted = Math.min(24, Math.max(4, Math.ceil(Math.sqrt(runs.length))));
  const highest = values.reduce((most, value) => Math.max(most, value), 1e-9);
  const unit = is_whole ? Math.ceil((highest + 1) / wanted) : highest / wanted;
  const bars = new Array(is_whole ? Math.ceil((highest + 1) / unit) : wanted).fill(0);
  const most = unit * bars.length;
  for (const value of values) bars[Math.min(bars.length - 1, Math.floor(value / unit))] += 1;
  const top = Math.max(...bars);
  const width = (W - PAD - 8) / bars.length;
  const shapes = bars.map((number, index) => {
    const height = (number / top) * (H - PAD - 16);
    return svg("rect", { class: "model", x: PAD + index * width + 1, y: H - PAD - height, width: width - 2, height },
      svg("title", {}, `${text(index * unit)} to ${text((index + 1) * unit - (is_whole ? 1 : 0))}: ${number} runs`));
  });
  return el("figure", {}, el("figcaption", {}, title), svg("svg", { width: W, height: H, viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": title },
    svg("line", { x1: PAD, y1: H - PAD, x2: W, y2: H - PAD }), shapes,
    svg("text", { x: W, y: H - PAD + 14, "text-anchor": "end" }, text(is_whole ? most - 1 : most)),
    svg("text", { x: 0, y: 12 }, `${top} runs`)));
}

// How many runs had begun (the line), and how many had ended with which status (one area upon the other).
function over_time(runs, statuses) {
  const timed = runs.filter((it) => it.started);
  // A run with one time alone has ended then, as far as it is known.
  const ended = (it) => it.last ?? it.started;
  const done = timed.filter((it) => !it.running).sort((one, other) => ended(one) - ended(other));
  if (timed.length < 2 || !done.length) return null;
  const start = timed.reduce((least, it) => Math.min(least, it.started), Infinity);
  const end = timed.reduce((most, it) => Math.max(most, it.running ? now() : ended(it)), start + 0.001);
  const x = (t) => (PAD + ((t - start) / (end - start)) * (W - PAD - 8)).toFixed(1);
  const y = (number) => (H - PAD - (number / timed.length) * (H - PAD - 16)).toFixed(1);
  const shown = statuses.map(([status]) => status).filter((status) => done.some((it) => it.status === status));
  const heights = shown.map(() => 0);
  const paths = shown.map(() => `M${x(start)} ${y(0)}`);
  for (const it of done) {
    for (let at = shown.indexOf(it.status); at < shown.length; at += 1) paths[at] += `H${x(ended(it))}V${y(++heights[at])}`;
  }
  const begun = timed.map((it) => it.started).sort((one, other) => one - other)
    .reduce((path, t, index) => `${path}H${x(t)}V${y(index + 1)}`, `M${x(start)} ${y(0)}`);
  // Further statuses of one colour are paler.
  const tone = shown.map((status) => badge(statuses.find(([name]) => name === status)[1][0]).className.split(" ")[1]);
  const look = (at) => ({ class: `area ${tone[at]} pale-${Math.min(3, tone.slice(0, at).filter((it) => it === tone[at]).length)}` });
  const areas = shown.map((status, at) => svg("path", { ...look(at), d: `${paths[at]}H${x(end)}V${y(0)}Z` }, svg("title", {}, status)));
  const running = timed.filter((it) => it.running).length;
  const title = "Statuses over time";
  return el("figure", {}, el("figcaption", {}, title), svg("svg", { width: W, height: H, viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": title },
    areas.reverse(), svg("path", { class: "begun", d: `${begun}H${x(end)}` }),
    svg("line", { x1: PAD, y1: H - PAD, x2: W, y2: H - PAD }), svg("line", { x1: PAD, y1: 0, x2: PAD, y2: H - PAD }),
    svg("text", { x: W, y: H - PAD + 14, "text-anchor": "end" }, duration(end - start)),
    svg("text", { x: PAD + 4, y: 10 }, `${timed.length} runs begun` + (running ? `, ${running} of them ${running === 1 ? "goes" : "go"} on` : ""))),
    el("div", { class: "legend" }, shown.map((status, at) => el("span", { class: "of-key" },
      svg("svg", { class: "key", viewBox: "0 0 1 1" }, svg("rect", { ...look(at), width: 1, height: 1 })), status))));
}

export function show_batch(main, name, go) {
  document.title = name || "All runs";
  const box = el("div", {});
  let waiting = null;
  let asked = 0;

  // The instances of the batch that no run has begun.
  const not_begun = (open) => !waiting?.count ? "" : el("details", { id: "waiting", "data-group": "waiting", open: open.get("waiting") },
    el("summary", { "data-key": "group" }, el("b", {}, waiting.count), ` of ${waiting.instances}${waiting.more ? "+" : ""} instances have not begun`),
    waiting.named.map((it) => el("div", {}, it)),
    waiting.named.length < waiting.count ? el("div", {}, `and ${waiting.count - waiting.named.length} more`) : null);

  main.append(el("header", {}, el("a", { href: list_address() }, "← runs"), el("h1", {}, name || "all runs")), box);

  const in_folder = name ? " " + word_of("folder", name) : "";

  function draw(open) {
    const runs = [...all_runs().values()].filter((it) => !name || it.name.startsWith(name + "/"));
    const by = new Map();
    for (const it of runs) add(by, it.status, it);
    const sorted = [...by].sort((one, other) => other[1].length - one[1].length);
    const statuses = el("table", { id: "statuses" },
      el("tr", {}, ["Status", "Runs", "Cost", "Median cost", "Median steps", "Median time"].map((it, at) => el("th", { class: at ? "number" : null }, it))),
      sorted.map(([status, of]) => el("tr", {},
        el("td", {}, el("a", { href: link({ q: word_of("status", status) + in_folder }), "data-key": status }, badge(of[0]))),
        [of.length, spent(of), dollars(median(of.map((it) => it.cost))),
          median(of.map((it) => it.steps)), duration(median(of.map(took)))]
          .map((it) => el("td", { class: "number" }, it)))));
    const failures = new Map();
    for (const it of runs) {
      if (it.running || it.status.toLowerCase() === "submitted") continue;
      const kind = `${it.status}\n${kind_of(it.error ?? "")}`;
      add(failures, kind, it);
    }
    const clusters = [...failures].sort((one, other) => other[1].length - one[1].length).slice(0, 100).map(([kind, of]) =>
      el("details", { "data-group": kind, open: open.get(kind) }, el("summary", { "data-key": "group" }, el("b", {}, of.length), " × ", badge(of[0]), " ", of[0].error ?? ""),
        of.slice(0, 200).map((it) => el("div", {}, el("a", { href: link({ run: it.id }), "data-key": it.id }, short_name(it.name))))));
    if (!runs.length) return box.replaceChildren(el("p", {}, "no runs are recorded here yet"), not_begun(open));
    box.replaceChildren(...[
      el("p", { class: "summary" }, `${runs.length} runs · ${spent(runs)} · ${count(runs.reduce((sum, it) => sum + it.input + it.output, 0))} tokens`),
      el("div", { class: "wide" }, statuses),
      not_begun(open),
      over_time(runs, sorted) ?? "",
      plot(...known("Cost against steps", runs, (it) => it.cost), (it) => it.steps, (it) => it.cost, (it) => `${it} steps`, dollars, go),
      plot(...known("Time against steps", runs, took), (it) => it.steps, took, (it) => `${it} steps`, duration, go),
      runs.length > 3 ? [distribution("Steps", runs, (it) => it.steps, (it) => `${it} steps`, true),
        distribution(...known("Cost", runs, (it) => it.cost), (it) => it.cost, dollars)] : "",
      clusters.length ? el("h2", {}, "Failures of the same kind") : "", clusters].flat(2));
  }

  let stale = true;
  return each_second(async () => {
    if (await renew()) stale = true;
    if (now() - asked > 5) {
      asked = now();
      const { value } = await ask("/api/waiting", { folder: name });
      if (value.count !== waiting?.count) stale = true;
      waiting = value;
    }
    if (!stale || String(getSelection()).length > 0 || box.matches(":active")) return;
    stale = false;
    redraw(box, draw);
  });
}
