// One run: a conversation, a chart, the submission; it grows while the run goes on.

import { ask, count, dollars, duration, each_second, el, moment, now } from "./tools.js";
import { badge } from "./list.js";
import { step_box } from "./step.js";

export function show_run(main, id) {
  document.title = "Run";
  const state = { steps: [], open: 0, tag: null, here: -1, follow: false, card: null };
  const title = el("h1", {});
  const facts = el("div", { class: "facts" });
  const doing = el("p", { class: "now", id: "now" });
  const steps = el("div", { id: "steps" });
  const end = el("div", { id: "end" });
  const place = el("span", { class: "soft", id: "place" });
  main.append(
    el("div", { class: "bar" }, el("a", { href: "/" }, "← runs"), title, place),
    facts, doing, steps, end);

  async function renew() {
    for (;;) {
      const answer = await ask("/api/run", { id, from: state.open }, state.tag);
      if (!answer) return;
      const { value } = answer;
      state.steps.length = value.from;
      while (steps.children.length > value.from) steps.lastChild.remove();
      for (const step of value.steps) {
        state.steps.push(step);
        steps.append(step_box(id, step, value.about.head !== null));
      }
      const is_all = value.next >= value.total;
      state.open = is_all ? Math.min(value.open, value.total) : value.next;
      draw_head(value);
      // The tag is of an answer from the same step on.
      state.tag = null;
      if (is_all) {
        state.tag = value.from === state.open ? answer.tag : null;
        return;
      }
    }
  }

  function draw_head(value) {
    const card = value.card;
    state.card = card;
    document.title = (card.task || card.name).slice(0, 80);
    title.textContent = card.task || card.name;
    const took = (card.running ? now() : card.last) - card.started;
    facts.replaceChildren(
      badge(card),
      ...[["model", card.model], ["steps", card.steps], ["cost", dollars(value.card.cost)],
        ["tokens", `${count(value.usage.input_tokens)} in, ${count(value.usage.output_tokens)} out`],
        ["took", duration(took)], ["started", moment(card.started)], ["run", card.run],
        ["program", card.program], ["file", card.name]]
        .filter(([, text]) => text)
        .map(([name, text]) => el("span", {}, name + " ", el("b", {}, text))));
    const at = value.about.now;
    doing.textContent = at ? `${at.event} · since ${duration(now() - at.since)}` : "";
    if (value.about.damage) doing.textContent = `the rest of the file can't be read: ${value.about.damage}`;
    if (card.error) doing.textContent = card.error;
    end.replaceChildren(value.submission ? el("section", {}, el("h2", {}, "Submission"),
      el("pre", {}, typeof value.submission === "string" ? value.submission : value.submission.head)) : "");
  }

  const stop = each_second(renew);
  return stop;
}
