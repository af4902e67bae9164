// One step of a run: what was thought, said, called, and what came of it.

import { count, dollars, duration, el, link, moment } from "./tools.js";
import { diff_box, is_patch } from "./diff.js";

const LINES = 25;

// A text of the record: a string, or the ends of a long one.
const whole_url = (id, step, part) => "/api/text?" + new URLSearchParams({ id, step, part });

export const length = (text) => (typeof text === "string" ? text.length : text?.bytes ?? 0);

function lines(text) {
  let n = 1;
  for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", at + 1)) n += 1;
  return n;
}

export function text_of(text, kind, id, step, part) {
  if (!text) return null;
  if (typeof text === "string") return kind === "output" && is_patch(text) ? diff_box(text) : el("pre", { class: kind }, text);
  return el("div", {},
    el("pre", { class: kind }, text.head),
    el("p", {}, el("a", { href: whole_url(id, step, part), target: "_blank", rel: "noopener" },
      `… ${count(text.bytes)} bytes in all: show the whole text`)),
    el("pre", { class: kind }, text.tail));
}

// Folded if it is long.
function folded(title, text, kind, id, step, part) {
  if (!text) return null;
  const all = typeof text === "string" ? lines(text) : null;
  const open = all !== null && all <= LINES && text.length < 4000;
  const size = all === null ? `${count(text.bytes)} bytes` : `${all} lines`;
  const it = el("details", { open, "data-part": part }, el("summary", {}, title, open ? "" : ` · ${size}`));
  // What is not shown costs nothing.
  const fill = () => { if (it.open && it.children.length === 1) it.append(text_of(text, kind, id, step, part)); };
  it.addEventListener("toggle", fill);
  fill();
  return it;
}

function images(all) {
  return (all ?? []).map((image) => image.data
    ? el("img", { class: "shown", alt: "image", src: image.data })
    : el("p", { class: "soft" }, "image, not fetched: ", typeof image.named === "string" ? image.named : image.named.head));
}

const MARKS = { same: "", changed: "changed", hidden: "hidden: not sent", added: "added" };

// A text of a request: whole, or the ends of a long one.
const sent_text = (text) => (text === null || text === undefined ? null
  : el("pre", { class: "output" }, typeof text === "string" ? text : `${text.head}\n… ${count(text.bytes)} bytes in all …\n${text.tail}`));

function sent_message(it, index) {
  const first = typeof it.text === "string" ? it.text : it.text?.head ?? "";
  const mark = MARKS[it.mark];
  return el("details", { class: "sent " + it.mark, open: it.mark === "changed" || it.mark === "added" },
    el("summary", {}, `${index + 1} ${it.role} · ${count(it.bytes)} bytes `, mark ? el("b", {}, mark) : "",
      el("span", { class: "soft" }, " " + first.slice(0, 80))),
    it.before ? el("details", { class: "before" }, el("summary", {}, "in the history"), sent_text(it.before)) : null,
    it.text === undefined ? el("p", { class: "soft" }, "not shown: the request is too long for the page") : sent_text(it.text),
    images(it.images));
}

// An answer, or why there is none; it is asked again when the box is opened again.
async function told(box, url) {
  const wait = el("p", { class: "soft" }, "…");
  box.append(wait);
  const gone = { ok: false, text: async () => "the server can't be reached" };
  const answer = await fetch(url).catch(() => gone);
  if (answer.ok) return { answer, wait };
  wait.replaceWith(el("p", { class: "error" }, await answer.text()));
  box.addEventListener("toggle", () => box.lastChild.remove(), { once: true });
  return null;
}

// The request as it was sent, against the history; made anew when it is asked for.
function request(id, n) {
  const it = el("details", { class: "request", "data-part": "as sent" }, el("summary", {}, "as sent"));
  it.addEventListener("toggle", async () => {
    if (!it.open || it.children.length > 1) return;
    const asked = await told(it, "/api/sent?" + new URLSearchParams({ id, step: n }));
    if (!asked) return;
    const { answer, wait } = asked;
    const sent = await answer.json();
    const number = (mark) => sent.messages.filter((one) => one.mark === mark).length;
    const marked = ["changed", "hidden", "added"].map((mark) => [number(mark), mark]).filter(([some]) => some);
    const lines = [el("p", {}, `${count(sent.sent)} messages sent` +
      (marked.length ? "; against the history: " + marked.map(([some, mark]) => `${count(some)} ${mark}`).join(", ") : ", the whole history"))];
    if (sent.stopped || (sent.recorded !== null && sent.recorded !== sent.sent)) {
      lines.push(el("p", { class: "error" }, sent.stopped ? "It could not be made anew up to here: " + (sent.stopped.head ?? sent.stopped)
        : `This is not what was sent: the run sent ${count(sent.recorded)} messages`));
    }
    if (sent.caution) lines.push(el("p", { class: "soft" }, sent.caution));
    const part = (title, text) => el("details", {}, el("summary", {}, title), sent_text(text));
    wait.replaceWith(...lines, ...sent.messages.map(sent_message), part("tools", sent.tools), part("parameters", sent.parameters),
      sent.body ? part("the body, made anew by the adapter (not recorded)", sent.body) : "");
  });
  return it;
}

export function step_times(step) {
  // The pauses after failed requests are no time of the model.
  const paused = step.pauses.reduce((sum, [at, seconds]) => sum + Math.min(seconds, Math.max(0, step.time - at)), 0);
  const model = step.asked && step.time ? Math.max(0, step.time - step.asked - paused) : 0;
  const shell = step.shown.reduce((sum, it) => sum + (it.seconds ?? 0), 0);
  return { model, shell };
}

export const step_tokens = (step) =>
  step.usage ? (step.usage.input_tokens ?? 0) + (step.usage.output_tokens ?? 0) : 0;

function facts(step) {
  const { model, shell } = step_times(step);
  const usage = step.usage;
  return [
    model ? `model ${duration(model)}` : null,
    shell ? `commands ${duration(shell)}` : null,
    usage ? `${count(usage.input_tokens)} in${usage.cache_read_tokens ? ` (${count(usage.cache_read_tokens)} cached)` : ""}, ${count(usage.output_tokens)} out` : null,
    step.view ? `${step.view.messages} messages sent` + (step.view.start && step.view.start < step.view.messages
      ? `, those from ${step.view.start} on new or changed` : "") : null,
    step.cost !== null && step.reply ? dollars(step.cost) : null,
    step.finish && !["stop", "tool_calls"].includes(step.finish) ? `ended by ${step.finish}` : null,
  ].filter(Boolean).join(" · ");
}

const WHO = { system: "System", user: "User", agent: "Model" };

export function step_box(id, step, has_record) {
  const n = step.step;
  const parts = [];
  if (step.reasoning) {
    parts.push(el("div", { class: "thought" }, folded("Thought", step.reasoning, "said", id, n, "reasoning")));
  }
  if (step.source === "agent") parts.push(text_of(step.text, "said", id, n, "text"));
  else parts.push(folded(step.source === "system" ? "Prompt" : "Message", step.text, "said", id, n, "text"));
  parts.push(images(step.images));
  step.calls.forEach((call, index) => {
    if (call.name !== "bash") parts.push(el("div", { class: "soft" }, call.name));
    parts.push(text_of(call.text, "call", id, n, `call-${index}`));
  });
  if (step.rejected) parts.push(el("p", { class: "error" }, `The reply was not usable: ${step.rejected}`));
  step.shown.forEach((it, index) => {
    const code = it.returncode;
    const title = [
      code === null ? "Feedback" : "Output",
      code === null ? null : el("span", { class: code === 0 ? "good" : "bad" }, ` · exit code ${code}`),
      it.seconds === null ? null : ` · ${duration(it.seconds)}`,
      it.unseen ? " · the model has not seen it" : null,
    ];
    parts.push(folded(el("span", {}, title), it.text || "(no output)", "output", id, n, `shown-${index}`));
    if (it.exception) parts.push(text_of(it.exception, "error", id, n, "text"));
    parts.push(images(it.images));
  });
  if (has_record && step.reply) parts.push(request(id, n));
  if (has_record) {
    const record = el("details", { "data-part": "as recorded" }, el("summary", {}, "as recorded"));
    record.addEventListener("toggle", async () => {
      // What is there may be of the step before it has grown.
      if (!record.open || (record.children.length > 1 && !record.dataset.old)) return;
      delete record.dataset.old;
      const asked = await told(record, "/api/record?" + new URLSearchParams({ id, step: n }));
      if (!asked) return;
      record.replaceChildren(record.firstChild, el("pre", { class: "output" }, await asked.answer.text()));
      record.dispatchEvent(new Event("told"));
    });
    parts.push(record);
  }
  return el("section", { class: "step " + step.source, id: `step-${n}` },
    el("h3", {},
      el("a", { href: link({ run: id }, `#step-${n}`) }, `${n}`),
      WHO[step.source] ?? step.source,
      el("span", { class: "soft" }, facts(step)),
      step.time ? el("span", { class: "soft", title: moment(step.time) }, new Date(step.time * 1000).toLocaleTimeString()) : null),
    parts);
}

// Puts the box of a step that has grown in the place of the one before. What was open or closed stays so; a request
// that was sent does not change; the record is asked anew, and `grown` is called when it is here.
export function replace_step(old, box, grown) {
  const parts = (of) => new Map([...of.querySelectorAll("details[data-part]")].map((it) => [it.dataset.part, it]));
  const before = parts(old);
  const focused = [...before].find(([, it]) => it.firstChild === document.activeElement)?.[0];
  for (const [name, it] of parts(box)) {
    const was = before.get(name);
    if (!was) continue;
    if (name === "as sent") it.replaceWith(was);
    else it.open = was.open;
    if (name !== "as recorded" || !was.open) continue;
    it.append(...[...was.children].slice(1));
    it.dataset.old = "yes";
    it.addEventListener("told", grown, { once: true });
  }
  old.replaceWith(box);
  if (focused) parts(box).get(focused)?.firstChild.focus({ preventScroll: true });
}
