// One run: a conversation, a chart, the submission; it grows while the run goes on.

import { ask, count, dollars, duration, each_second, el, keys_box, link, list_address, moment, now } from "./tools.js";
import { all_runs, badge, beside, renew as renew_list, took } from "./list.js";
import { replace_step, step_box } from "./step.js";
import { chart } from "./chart.js";
import { diff_box, diff_facts, is_patch } from "./diff.js";
import { note_box } from "./notes.js";

const KEYS = [
  ["l →", "next step"], ["h ←", "previous step"], ["0", "first step"], ["$", "last step"],
  ["j ↓ / k ↑", "scroll"], ["L / H", "next / previous run of the list"], ["e", "the step as recorded"],
  ["E", "the whole file"], ["r", "thoughts on or off"], ["f", "follow"], ["R", "load again"], ["q", "back to the list"],
];

export function show_run(main, id, go) {
  document.title = "Run";
  const state = { steps: [], texts: [], open: 0, tag: null, here: -1, follow: false, end: null, loaded: false, led: 0 };
  const title = el("h1", {});
  const facts = el("div", { class: "facts" });
  const doing = el("p", { class: "now", id: "now" });
  const trouble = el("p", { class: "error", id: "trouble", hidden: true });
  const time = el("span", {});
  const steps = el("div", { id: "steps" });
  const end = el("div", { id: "end" });
  const place = el("span", { class: "soft", id: "place" });
  const bars = chart((step) => to_step(step, true));
  const follow = el("input", { type: "checkbox", id: "follow", onchange: () => {
    state.follow = follow.checked;
    if (state.follow) to_end();
  } });
  const help = keys_box(KEYS);
  main.append(
    el("div", { class: "bar of-run" },
      el("a", { href: list_address() }, "← runs"),
      el("button", { onclick: () => step_by(-1), "aria-label": "previous step" }, "‹"),
      place,
      el("button", { onclick: () => step_by(1), "aria-label": "next step" }, "›"),
      el("label", {}, follow, " follow"),
      el("button", { onclick: thoughts }, "thoughts"),
      el("button", { onclick: () => help.showModal(), title: "keys" }, "?")),
    title, facts, trouble, doing, bars.box, note_box(id), steps, end, help);

  async function renew() {
    for (;;) {
      const answer = await ask("/api/run", { id, from: state.open }, state.tag).catch((error) => {
        if (!state.steps.length) unreadable();
        throw error;
      });
      if (!answer) return draw_now();
      const { value } = answer;
      if (value.total < value.from) {
        // Another run has taken the file.
        Object.assign(state, { steps: [], texts: [], open: 0, tag: null });
        steps.replaceChildren();
        continue;
      }
      let has_changed = false;
      const has_record = value.about.head !== null;
      value.steps.forEach((step, offset) => {
        const index = value.from + offset;
        const text = JSON.stringify(step);
        if (state.texts[index] === text) return;
        has_changed = true;
        const box = step_box(id, step, has_record);
        box.addEventListener("click", () => mark(index));
        if (index === state.here) box.classList.add("here");
        if (index < steps.children.length) replace_step(steps.children[index], box, () => { if (state.follow) to_end(); });
        else steps.append(box);
        state.steps[index] = step;
        state.texts[index] = text;
      });
      const is_all = value.next >= value.total;
      if (is_all) {
        state.steps.length = state.texts.length = value.total;
        while (steps.children.length > value.total) steps.lastChild.remove();
      }
      const next = is_all ? Math.min(value.open, value.total) : value.next;
      state.tag = is_all && next === value.from ? answer.tag : null;
      state.open = next;
      draw_head(value);
      bars.box.hidden = false;
      // The first steps of a long run are shown before the others are here.
      if (is_all || value.from === 0) bars.show(state.steps);
      if (!state.loaded) first_place(is_all);
      if (is_all) {
        if (has_changed && state.follow) {
          mark(state.steps.length - 1);
          to_end();
        }
        draw_place();
        return;
      }
    }
  }

  // The notice says why.
  function unreadable() {
    bars.box.hidden = true;
    title.textContent = "This run can't be shown";
    facts.replaceChildren(el("a", { href: "/api/file?" + new URLSearchParams({ id }), target: "_blank", rel: "noopener" }, "the file as text"));
  }

  function first_place(is_all) {
    const named = /^#step-(\d+)$/.exec(location.hash);
    if (!state.steps.length || (named && !is_all && Number(named[1]) >= state.steps.length)) return draw_place();
    state.loaded = true;
    if (named) to_step(Number(named[1]), false);
    else mark(0);
  }

  function draw_head(value) {
    const card = value.card;
    document.title = (card.task || card.name).slice(0, 80);
    title.textContent = card.task || card.name;
    const usage = value.usage;
    facts.replaceChildren(
      badge(card),
      ...[["model", card.model], ["queries", card.steps], ["cost", dollars(card.cost)],
        ["tokens", `${count(usage.input_tokens)} in, ${count(usage.output_tokens)} out`],
        ["took", time], ["started", moment(card.started)], ["run", card.run],
        ["environment", card.environment], ["config", card.config], ["program", card.program], ["file", card.name]]
        .filter(([, text]) => text || text === 0)
        .map(([name, text]) => el("span", {}, name + " ", el("b", {}, text))));
    const head = value.about.head;
    if (head) {
      const about = el("details", {}, el("summary", {}, "config and plugins"));
      about.addEventListener("toggle", () => {
        if (about.children.length === 1) about.append(el("pre", {}, JSON.stringify(head, null, 2)));
      });
      facts.append(about);
    }
    state.head = value;
    draw_now();
    const shown = JSON.stringify([value.submission, value.exit_status]);
    if (shown === state.end) return;
    state.end = shown;
    end.replaceChildren();
    if (value.exit_status) end.append(el("h2", {}, "Ended: ", value.exit_status));
    const text = value.submission;
    if (!text) return;
    const whole = el("a", { href: "/api/text?" + new URLSearchParams({ id, step: 0, part: "submission" }), target: "_blank", rel: "noopener" }, "as text");
    if (typeof text !== "string") {
      end.append(el("h2", {}, "Submission: ", whole), el("pre", {}, text.head));
    } else if (is_patch(text)) {
      end.append(el("h2", {}, `Submission: ${diff_facts(text)} `, whole), diff_box(text));
    } else {
      end.append(el("h2", {}, "Submission: ", whole), el("pre", {}, text));
    }
  }

  // What grows with the time, also when nothing is recorded.
  function draw_now() {
    if (!state.head) return;
    const { card, about } = state.head;
    time.textContent = duration(took(card));
    doing.textContent = doing.title = about.now ? `${about.now.event} · for ${duration(now() - about.now.since)}` : "";
    doing.hidden = !about.now;
    const texts = [about.damage ? `the rest of the file can't be read: ${about.damage}` : "", card.error];
    trouble.textContent = texts.filter(Boolean).join(" · ");
    trouble.hidden = !trouble.textContent;
  }

  function draw_place() {
    if (state.steps.length && state.here < 0) place.textContent = `${state.steps.length} steps read`;
    else place.replaceChildren(...(state.steps.length ? [el("span", {}, "step "), `${state.here} of ${state.steps.length - 1}`] : ["no steps yet"]));
  }

  // A new step has its height only when it was drawn.
  function to_end() {
    const down = () => {
      state.led = performance.now();
      scrollTo(0, document.documentElement.scrollHeight);
    };
    down();
    requestAnimationFrame(() => requestAnimationFrame(down));
  }

  // The step in sight: the last one that begins in the upper part of the window.
  function scrolled() {
    if (!state.loaded || !state.steps.length || performance.now() - state.led < 400) return;
    const line = innerHeight * 0.35;
    let [from, to] = [0, steps.children.length - 1];
    if (scrollY + innerHeight >= document.documentElement.scrollHeight - 2 && scrollY > 0) from = to;
    while (from < to) {
      const middle = Math.ceil((from + to) / 2);
      if (steps.children[middle].getBoundingClientRect().top <= line) from = middle;
      else to = middle - 1;
    }
    mark(from);
  }

  function mark(step) {
    if (step === state.here) return;
    steps.children[state.here]?.classList.remove("here");
    state.here = step;
    steps.children[step]?.classList.add("here");
    bars.mark(step);
    draw_place();
  }

  function to_step(step, keep) {
    if (!state.steps.length) return;
    const to = Math.min(Math.max(step, 0), state.steps.length - 1);
    // It may be too near to the end to be in the upper part.
    state.led = performance.now();
    mark(to);
    steps.children[to].scrollIntoView({ block: "start" });
    if (keep) history.replaceState(null, "", link({ run: id }, `#step-${to}`));
  }

  // A step begins with a reply of the model.
  function step_by(by) {
    let to = state.here + by;
    while (state.steps[to] && state.steps[to].source !== "agent") to += by;
    if (!state.steps[to]) to = by > 0 ? state.steps.length - 1 : 0;
    to_step(to, true);
  }

  function thoughts() {
    steps.classList.toggle("no-thoughts");
  }

  async function run_by(by) {
    if (!all_runs().size) await renew_list();
    const to = beside(id, by);
    if (to) go(link({ run: to.id }));
  }

  const line = 15 * 20;
  const acts = {
    l: () => step_by(1), ArrowRight: () => step_by(1), h: () => step_by(-1), ArrowLeft: () => step_by(-1),
    0: () => to_step(0, true), $: () => to_step(state.steps.length - 1, true),
    j: () => scrollBy(0, line), k: () => scrollBy(0, -line), ArrowDown: () => scrollBy(0, line), ArrowUp: () => scrollBy(0, -line),
    L: () => run_by(1), H: () => run_by(-1), r: thoughts, R: () => location.reload(), q: () => go(list_address()),
    f: () => follow.click(), "?": () => (help.open ? help.close() : help.showModal()),
    e: () => {
      const record = [...steps.children[state.here]?.querySelectorAll("details") ?? []].at(-1);
      if (record) record.open = !record.open;
    },
    E: () => open("/api/file?" + new URLSearchParams({ id }), "_blank", "noopener"),
  };
  const keys = (event) => {
    if (event.target.matches("input[type=text], input[type=search], select, textarea") || event.ctrlKey || event.metaKey || event.altKey) return;
    const act = acts[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  };
  const hash = () => {
    const named = /^#step-(\d+)$/.exec(location.hash);
    if (named) to_step(Number(named[1]), false);
  };
  document.addEventListener("keydown", keys);
  addEventListener("hashchange", hash);
  addEventListener("scroll", scrolled, { passive: true });
  const stop = each_second(renew);
  return () => {
    stop();
    document.removeEventListener("keydown", keys);
    removeEventListener("hashchange", hash);
    removeEventListener("scroll", scrolled);
  };
}
