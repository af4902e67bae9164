// Two runs side by side. The server aligns their steps.

import { ask, dollars, el, link } from "./tools.js";
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
  main.append(el("div", { class: "bar" }, el("a", { href: "/" }, "← runs"), first, el("label", {}, only, " all equal steps, too"), told), box);
  let over = false;

  async function load() {
    const [{ value: pairs }, one, other] = await Promise.all([ask("/api/compare", { a, b }), whole(a), whole(b)]);
    if (over) return;
    only.onchange = () => draw(pairs, one, other);
    draw(pairs, one, other);
  }

  function head(id, run) {
    return el("div", {}, el("h2", {}, el("a", { href: link({ run: id }) }, run.card.run || run.card.name)), badge(run.card),
      ` ${run.card.model} · ${run.card.steps} queries · ${dollars(run.card.cost)}`);
  }

  function draw(pairs, one, other) {
    first.hidden = pairs.first === null;
    told.textContent = pairs.first === null ? "both runs are the same, step by step"
      : `the first difference is at ${["step", pairs.rows[pairs.first][0] ?? "-", "and step", pairs.rows[pairs.first][1] ?? "-"].join(" ")}`;
    const rows = [el("div", { class: "pair" }, head(a, one), head(b, other))];
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
        el("div", {}, left === null ? null : unnamed(step_box(a, one.steps[left], false))),
        el("div", {}, right === null ? null : unnamed(step_box(b, other.steps[right], false))),
      ));
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
