// Two runs side by side. The server aligns their steps.

import { ask, dollars, el, link, list_address, short_name } from "./tools.js";
import { badge } from "./list.js";
import { step_box } from "./step.js";

const STEPS = 400;

async function whole(id) {
  const steps = [];
  let card = null;
  for (let from = 0; ;) {
    const { value } = await ask("/api/run", { id, from });
    steps.push(...value.steps);
    card = value.card;
    from = value.next;
    if (from >= value.total) return { steps, card };
  }
}

export function show_compare(main, a, b) {
  document.title = "Two runs";
  const box = el("div", { id: "pairs" }, el("p", {}, "reading…"));
  const told = el("span", { class: "soft", id: "told" });
  const only = el("input", { type: "checkbox", id: "only" });
  const first = el("button", { id: "to-first", hidden: true, onclick: () => document.querySelector(".pair.first")?.scrollIntoView() }, "first difference");
  main.append(el("div", { class: "bar" }, el("a", { href: list_address() }, "← runs"), first, el("label", {}, only, " equal steps, too"), told), box);
  let over = false;

  async function load() {
    const [{ value: pairs }, one, other] = await Promise.all([ask("/api/compare", { a, b }), whole(a), whole(b)]);
    if (over) return;
    only.onchange = () => draw(pairs, one, other);
    draw(pairs, one, other);
  }

  const names = (one, other) => {
    const all = [one, other].map((run) => short_name(run.card.name));
    return all[0] === all[1] ? [one, other].map((run) => run.card.name) : all;
  };

  function head(id, run, name) {
    return el("div", {}, el("h2", {}, el("a", { href: link({ run: id }) }, name)), badge(run.card),
      ` ${run.card.model} · ${run.card.steps} queries · ${dollars(run.card.cost)}`);
  }

  const over_or_not = (run) => (run.card.running ? "is not as far yet" : "has ended");

  // Where they part. A run has ended if no row after this one has a step of it.
  function parting(pairs, runs) {
    const [left, right] = pairs.rows[pairs.first];
    if (left === right) return `the first difference is at step ${left}`;
    if (left !== null && right !== null) return `the first difference is at step ${left} of the first run and step ${right} of the second one`;
    const gone = left === null ? 0 : 1;
    const [with_it, without] = gone ? ["first", "second"] : ["second", "first"];
    const has_ended = pairs.rows.slice(pairs.first).every((row) => row[gone] === null);
    return has_ended ? `the ${without} run ${over_or_not(runs[gone])}, the ${with_it} one goes on with step ${left ?? right}`
      : `the ${with_it} run has a step ${left ?? right} that the ${without} one has not`;
  }

  function draw(pairs, one, other) {
    first.hidden = pairs.first === null;
    told.textContent = pairs.first === null ? "both runs are the same, step by step"
      : parting(pairs, [one, other]);
    const named = names(one, other);
    const rows = [el("div", { class: "pair" }, head(a, one, named[0]), head(b, other, named[1]))];
    const ends = [0, 1].map((at) => pairs.rows.findLastIndex((row) => row[at] !== null));
    const side = (at, index, id, run, step) => el("div", {}, el("p", { class: "side" }, named[at]),
      step !== null ? unnamed(step_box(id, run.steps[step], false))
        : el("p", { class: "soft" }, index > ends[at] ? `this run ${over_or_not(run)}` : "no such step in this run"));
    let equal = [];
    const flush = () => {
      if (!equal.length) return;
      const [from, to] = [equal[0], equal.at(-1)];
      rows.push(el("p", { class: "soft" }, from === to ? `step ${from} is the same` : `steps ${from} to ${to} are the same`));
      equal = [];
    };
    pairs.rows.forEach(([left, right, same], index) => {
      if (rows.length > STEPS) return;
      if (same === "all" && !only.checked) {
        equal.push(left);
        return;
      }
      flush();
      rows.push(el("div", { class: "pair" + (same === "all" ? "" : " other") + (index === pairs.first ? " first" : "") },
        side(0, index, a, one, left), side(1, index, b, other, right)));
    });
    flush();
    if (rows.length > STEPS) rows.push(el("p", {}, "more steps are not shown"));
    box.replaceChildren(...rows);
  }

  // Both sides have a step of the same number.
  function unnamed(it) {
    it.removeAttribute("id");
    return it;
  }

  load().catch((error) => box.replaceChildren(el("p", { class: "error" }, error.message)));
  return () => { over = true; };
}
