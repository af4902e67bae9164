// What each step has cost, as bars, and the time of the run as one line. A click leads to the step.

import { count, dollars, duration, el, svg } from "./tools.js";
import { step_times, step_tokens } from "./step.js";

const [WIDTH, HEIGHT] = [1000, 100];

const MEASURES = {
  time: { parts: (step) => { const { model, shell } = step_times(step); return [["model", model], ["shell", shell]]; }, text: duration },
  tokens: { parts: (step) => [["model", step_tokens(step)]], text: count },
  // A step without a known price has no bar.
  cost: { parts: (step) => [["model", step.cost ?? 0]], text: dollars, lacks: (step) => step.reply && step.cost === null },
};

export function chart(go) {
  const state = { measure: "time", steps: [], here: -1, drawn: "", now: 0 };
  const plot = el("div", {});
  const legend = el("span", { class: "soft", id: "legend" });
  const choice = el("select", { "aria-label": "what the bars show", id: "measure",
    onchange: () => { state.measure = choice.value; state.chosen = true; draw(true); } },
    [["time", "time of each step"], ["tokens", "tokens of each step"], ["cost", "cost of each step"], ["timeline", "time axis"]]
      .map(([name, text]) => el("option", { value: name }, text)));
  const box = el("div", { id: "chart" }, el("div", {}, choice, " ", legend), plot);

  function key(kind, text) {
    return el("span", { class: "of-key" }, el("span", { class: "key " + kind }), text);
  }

  function bars(steps) {
    const measure = MEASURES[state.measure];
    const values = steps.map((step) => measure.parts(step));
    const sums = values.map((parts) => parts.reduce((sum, [, value]) => sum + value, 0));
    const most = Math.max(...sums, 0);
    plot.hidden = most === 0;
    if (most === 0) {
      legend.textContent = steps.length ? `no ${state.measure === "time" ? "times are" : state.measure === "cost" ? "costs of single steps are" : "tokens of single steps are"} recorded` : "";
      return [];
    }
    const total = sums.reduce((sum, value) => sum + value, 0);
    const width = WIDTH / Math.max(steps.length, 1);
    const shapes = [];
    steps.forEach((step, index) => {
      let top = HEIGHT;
      for (const [kind, value] of values[index]) {
        const height = (value / most) * (HEIGHT - 4);
        top -= height;
        if (height > 0) {
          shapes.push(svg("rect", { class: kind, x: index * width + width * 0.08, y: top,
            width: Math.max(width * 0.84, 0.4), height }));
        }
      }
      const text = measure.lacks?.(step) ? "?" : values[index].length > 1
        ? values[index].map(([kind, value]) => `${kind === "shell" ? "commands" : kind} ${measure.text(value)}`).join(", ")
        : measure.text(sums[index]);
      shapes.push(hit(step, index * width, width, `step ${step.step}: ${text}`));
    });
    legend.replaceChildren(
      ...(state.measure === "time" ? [key("model", "model"), key("shell", "commands")] : []),
      `${measure.lacks && steps.some(measure.lacks) ? "at least " : ""}${measure.text(total)} in all, at most ${measure.text(most)} in a step`);
    return shapes;
  }

  function hit(step, x, width, text) {
    return svg("rect", { class: "hit" + (step.step === state.here ? " here" : ""), x, y: 0, width: Math.max(width, 0.4), height: HEIGHT,
      "data-step": step.step, onclick: () => go(step.step) }, svg("title", {}, text));
  }

  // From the first question to the last output: model, commands, and what is neither.
  function timeline(steps) {
    const timed = steps.filter((step) => step.asked && step.time);
    plot.hidden = !timed.length;
    if (!timed.length) {
      legend.textContent = "no times are recorded";
      return [];
    }
    const start = timed[0].asked;
    const last = timed.at(-1);
    const end = Math.max(last.time + step_times(last).shell, start + 0.001);
    const x = (t) => ((t - start) / (end - start)) * WIDTH;
    const shapes = [svg("rect", { class: "stall", x: 0, y: 30, width: WIDTH, height: 40 })];
    let [model, shell] = [0, 0];
    for (const step of timed) {
      const times = step_times(step);
      model += times.model;
      shell += times.shell;
      shapes.push(svg("rect", { class: "model", x: x(step.asked), y: 30, width: Math.max(x(step.time) - x(step.asked), 0.3), height: 40 }));
      for (const [at, seconds] of step.pauses) {
        shapes.push(svg("rect", { class: "stall", x: x(at), y: 30, width: Math.max(x(Math.min(at + seconds, step.time)) - x(at), 0.3), height: 40 }));
      }
      if (times.shell > 0) {
        shapes.push(svg("rect", { class: "shell", x: x(step.time), y: 30,
          width: Math.max(x(step.time + times.shell) - x(step.time), 0.3), height: 40 }));
      }
      const until = step.time + times.shell;
      shapes.push(hit(step, x(step.asked), x(until) - x(step.asked),
        `step ${step.step}: model ${duration(times.model)}, commands ${duration(times.shell)}`
          + (step.pauses.length ? `, failed requests ${step.pauses.length}` : "")));
    }
    const rest = Math.max(0, end - start - model - shell);
    legend.replaceChildren(key("model", `model ${duration(model)}`), key("shell", `commands ${duration(shell)}`),
      key("stall", `neither ${duration(rest)}`), `${duration(end - start)} in all`);
    return shapes;
  }

  function draw(anew) {
    const steps = state.steps.filter((step) => step.source === "agent");
    const last = steps.at(-1);
    const drawn = `${steps.length} ${last?.step} ${last?.shown.length} ${last?.cost} ${state.measure}`;
    if (!anew && drawn === state.drawn) return;
    state.drawn = drawn;
    // Where no times are recorded, what is recorded is shown at first.
    if (!state.chosen) {
      const is_told = (name) => steps.some((step) => MEASURES[name].parts(step).some(([, value]) => value > 0));
      state.measure = choice.value = ["time", "tokens", "cost"].find(is_told) ?? "time";
    }
    const shapes = state.measure === "timeline" ? timeline(steps) : bars(steps);
    plot.replaceChildren(svg("svg", { class: "chart", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img",
      "aria-label": choice.selectedOptions[0].text }, shapes));
  }

  return {
    box,
    show(steps) { state.steps = steps; draw(false); },
    mark(step) {
      state.here = step;
      plot.querySelector(".here")?.classList.remove("here");
      plot.querySelector(`[data-step="${step}"]`)?.classList.add("here");
    },
  };
}
