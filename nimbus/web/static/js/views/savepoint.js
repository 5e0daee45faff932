// The last savepoint that nimbus was asked for, and the next one.

import { h, useState } from "../preact.js";
import { path, post } from "../api.js";
import { duration, exact, plural } from "../format.js";
import { Figures, Pill, Section, When } from "../parts/bits.js";
import { Ask, Field } from "../parts/dialog.js";

const LEVELS = { running: "note", done: "ok", failed: "bad" };

export function Savepoint({ savepoint, nowS, say }) {
  const [isAsked, setAsked] = useState(false);
  const isRunning = savepoint.state === "running";
  const target = path(["topology", savepoint.topologyId, "savepoint"]);
  return h(Section, { title: "Savepoint", aside: h("button", { type: "button", class: "small", disabled: isRunning, onClick: () => setAsked(true) }, "Take a savepoint…") },
    savepoint.state === "none" ? h("p", { class: "none" }, "This nimbus has taken none of this topology.") : h(Last, { savepoint, nowS }),
    isAsked && h(Ask, {
      title: `Take a savepoint of ${savepoint.topologyName}?`, verb: "Take", close: () => setAsked(false), done: () => say("The savepoint is being written."),
      text: "All states and positions of one checkpoint are written to files. The topology goes on, but begins no checkpoint meanwhile.",
      fields: h(Field, { label: "Name", name: "to", type: "text", pattern: "[A-Za-z0-9][A-Za-z0-9._\\-]{0,99}", hint: "Without a name, the time is its name." }),
      act: (form) => post(target, form.get("to") ? { to: form.get("to") } : {}),
    }));
}

function Last({ savepoint, nowS }) {
  const { state, beganUnixSeconds: began, endedUnixSeconds: over } = savepoint;
  const entries = Object.values(savepoint.entries);
  return [
    h("div", { class: "padded tools" }, h(Pill, { text: state, level: LEVELS[state] }), h("span", { class: "mono" }, savepoint.address)),
    savepoint.failure && h("p", { class: "problem" }, savepoint.failure),
    h("div", { class: "padded flush" }, h(Figures, { figures: [
      ["Begun", h(When, { at: began, now: nowS })], ["Took", over === null ? "–" : duration(over - began)],
      ["Checkpoint", exact(savepoint.checkpoint)], state === "done" && ["Entries", exact(entries.reduce((sum, one) => sum + one, 0)), plural(entries.length, "component")]] })),
  ];
}
