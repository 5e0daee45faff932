// Small pieces that every view is made of.

import { h } from "../preact.js";
import { ago, clock, num } from "../format.js";

const MARKS = { ok: "✓", note: "i", warn: "!", bad: "✕" };

/** A mark that says how bad something is by its shape, not by colour alone. */
export function Mark({ level }) {
  return h("span", { class: `mark ${level}`, "aria-hidden": "true" }, MARKS[level]);
}

const STATUS_LEVELS = { ACTIVE: "ok", INACTIVE: "note", REBALANCING: "warn", KILLED: "warn", Leader: "ok", Offline: "bad" };

/** A word in a pill: a topology's or a daemon's status. */
export function Pill({ text, level }) {
  return h("span", { class: `pill ${level ?? STATUS_LEVELS[text] ?? "note"}` }, text);
}

/** A row of figures: [label, value, title?, level?]. */
export function Figures({ figures }) {
  return h("dl", { class: "figures" }, figures.filter(Boolean).map(([label, value, title, level]) =>
    h("div", { key: label, title, class: level ?? null }, h("dt", null, label), h("dd", null, value))));
}

/** A section with a heading; `aside` stands at the right of it. */
export function Section({ title, aside, children, id }) {
  return h("section", { class: "section", "aria-label": title, id },
    h("div", { class: "section-head" }, h("h2", null, title), aside),
    children);
}

const MAX_FOUND = 50;

/** What is wrong, first of all: a word, and what was found: {level, text, href?, more?}, worst first. See health.js. */
export function Verdict({ word, found }) {
  const number = (level) => found.filter((one) => one.level === level).length;
  const worst = number("bad") ? "bad" : number("warn") ? "warn" : "ok";
  const shown = found.slice(0, MAX_FOUND);
  return h("section", { class: `verdict ${worst}`, "aria-label": "Verdict" },
    h("p", { class: "headline" }, h(Mark, { level: worst }), h("span", null, headline(word, number("bad"), number("warn")))),
    shown.length > 0 && h("ul", null, shown.map((one) =>
      h("li", { key: one.text, class: one.level }, h(Mark, { level: one.level }),
        one.href ? h("a", { href: one.href }, one.text) : h("span", null, one.text),
        one.more && h("code", { class: "more" }, one.more))),
      found.length > shown.length && h("li", { key: "", class: "note" }, h(Mark, { level: "note" }), h("span", null, `${found.length - shown.length} more: see the topologies`))));
}

function headline(word, wrong, worth) {
  if (wrong) return `${word}: ${wrong === 1 ? "one thing is wrong" : `${wrong} things are wrong`}`;
  return worth ? `${word}; ${worth === 1 ? "one thing is" : `${worth} things are`} worth a look` : word;
}

/** A moment, as how long ago; the exact time in its title. */
export function When({ at, now }) {
  return h("time", { dateTime: at ? new Date(at * 1000).toISOString() : null, title: clock(at) }, ago(at, now));
}

/** Errors with their tracebacks, newest first; nimbus has folded those that say the same. `where(error)` is what stands in front of the message. */
export function Errors({ errors, now, where, empty }) {
  if (!errors.length) return h("p", { class: "none" }, empty);
  const newestFirst = [...errors].sort((left, right) => right.errorTime - left.errorTime);
  return h("ul", { class: "errors" }, newestFirst.map((error) => {
    const text = String(error.error ?? "").trim();
    const first = error.message || text.split("\n").at(-1); // a traceback ends with what it is about
    const more = text === first ? "" : text;
    const head = [h("span", { class: "error-when" }, h(When, { at: secondsOf(error), now })), where?.(error),
      h("span", { class: "error-message" }, first), error.times > 1 && h("span", { class: "pill", title: `since ${clock(error.firstErrorTime / 1000)}, in tasks ${error.tasks.join(", ")}` }, `${error.times} times`),
      error.isOver && h("span", { class: "pill ok", title: "the component is healthy again" }, "over")];
    return h("li", { key: keyOf(error) },
      more ? h("details", null, h("summary", null, head), h("pre", { tabIndex: 0 }, more)) : h("div", { class: "summary" }, head));
  }));
}

/** The Unix seconds of an error as the API gives it: lists say milliseconds. */
function secondsOf(error) {
  return (num(error.errorTime) ?? 0) / 1000;
}

function keyOf(error) {
  return `${error.topology?.id ?? ""}\n${error.component ?? ""}\n${error.message ?? error.error}`;
}

/** A bar that fills as capacity goes to 1, with the figure beside it. */
export function Bar({ value, text, level }) {
  const share = Math.max(0, Math.min(1, value ?? 0));
  return h("span", { class: `bar ${level}` },
    h("span", { class: "bar-figure" }, text),
    h("span", { class: "bar-track", "aria-hidden": "true" }, h("span", { class: "bar-fill", style: { width: `${share * 100}%` } })));
}

/** How bad a capacity is: 1.0 is saturated. */
export function capacityLevel(value) {
  if (value === null || value === undefined) return "idle";
  return value >= 0.9 ? "bad" : value >= 0.7 ? "warn" : value >= 0.05 ? "ok" : "idle";
}

/** Choose one of some values: radio buttons that look like one control. options: [value, label]. */
export function Choice({ label, name, options, value, choose }) {
  return h("fieldset", { class: "choice" },
    h("legend", { class: "hidden" }, label),
    options.map(([one, text]) => h("label", { key: one, class: one === value ? "chosen" : null },
      h("input", { type: "radio", name, value: one, checked: one === value, onChange: () => choose(one) }),
      h("span", null, text))));
}

/** What stands where an answer is not there: it is on its way, or was refused. */
export function Missing({ error, what }) {
  if (!error) return h("p", { class: "none" }, `Waiting for ${what}…`);
  return h("p", { class: "problem" }, `No ${what}: ${error.message}`);
}
