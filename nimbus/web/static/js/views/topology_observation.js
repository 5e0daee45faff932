// Sampling of tuples, and log levels: what is switched on while somebody looks into a topology.

import { h, useState } from "../preact.js";
import { path, post } from "../api.js";
import { clock, num } from "../format.js";
import { Ask, Field } from "../parts/dialog.js";
import { Missing } from "../parts/bits.js";
import { Table } from "../parts/table.js";

const LEVELS = ["DEBUG", "INFO", "WARN", "ERROR", "FATAL"];

export function Observation({ topology, levels, error, say }) {
  return h("div", { class: "padded stack" },
    h(Sampling, { topology, target: ["topology", topology.id], name: topology.name, say }),
    levels ? h(Levels, { topology, levels: levels.namedLoggerLevels ?? {}, say }) : h(Missing, { error, what: "log levels" }));
}

/** Switch sampling of tuples on or off for a topology or one component; `target` begins the path. */
export function Sampling({ topology, target, name, say }) {
  const [asked, setAsked] = useState(false);
  const on = topology.debug === true;
  const percent = num(topology.samplingPct) ?? 10;
  const dialog = on
    ? { title: `Stop sampling tuples of ${name}?`, text: "Workers stop writing its tuples to events.jsonl.", verb: "Stop sampling",
      act: () => post(path([...target, "debug", "disable", "0"])), done: () => say(`Tuples of ${name} are no longer sampled.`) }
    : { title: `Sample tuples of ${name}?`, text: "Workers write this percentage of its emitted tuples to events.jsonl, beside their logs.",
      verb: "Sample", fields: h(Field, { label: "Percent of tuples", name: "percent", value: percent || 10, min: 0.01, max: 100, step: "any", required: true }),
      act: (form) => post(path([...target, "debug", "enable", form.get("percent")])), done: () => say(`Tuples of ${name} are sampled.`) };
  return h("div", { class: "tools" },
    h("span", null, "Sampled tuples: ", h("b", null, on ? `${percent} %` : "off")),
    h("button", { type: "button", class: "small", onClick: () => setAsked(true) }, on ? "Stop sampling…" : "Sample…"),
    asked && h(Ask, { ...dialog, close: () => setAsked(false) }));
}

function Levels({ topology, levels, say }) {
  const [asked, setAsked] = useState(null);
  const rows = Object.entries(levels).map(([logger, one]) => ({ logger, ...one }));
  const set = (logger, change) => post(path(["topology", topology.id, "logconfig"]), { namedLoggerLevels: { [logger]: change } });
  const columns = [
    { id: "logger", label: "Logger", sort: (one) => one.logger, cell: (one) => one.logger || "ROOT" },
    { id: "level", label: "Level", sort: (one) => one.target_level, cell: (one) => one.target_level },
    { id: "until", label: "Until", sort: (one) => num(one.timeout_epoch), cell: (one) => (num(one.timeout_epoch) > 0 ? clock(one.timeout_epoch / 1000) : "for good") },
    { id: "clear", label: h("span", { class: "hidden" }, "Actions"), cell: (one) => h("button", { type: "button", class: "small", onClick: () => setAsked({ clear: one.logger }) }, "Clear…") },
  ];
  return h("div", null,
    h("div", { class: "tools" }, h("span", null, "Log levels: ", h("b", null, rows.length ? `${rows.length} changed` : "as configured")),
      h("button", { type: "button", class: "small", onClick: () => setAsked({}) }, "Set a level…")),
    rows.length > 0 && h(Table, { caption: "Log levels", columns, rows, rowKey: (one) => one.logger, sortBy: "logger" }),
    asked && asked.clear === undefined && h(Ask, { ...setting(topology, set), close: () => setAsked(null), done: () => say("The log level is set.") }),
    asked && asked.clear !== undefined && h(Ask, {
      title: `Clear the level of ${asked.clear || "ROOT"} in ${topology.name}?`, text: "The logger returns to its original level.", verb: "Clear",
      act: () => set(asked.clear, { timeout: 0, target_level: null }), close: () => setAsked(null), done: () => say("The log level is cleared.") }));
}

function setting(topology, set) {
  return {
    title: `Set a log level in ${topology.name}`, text: "Applies to all its workers, without a restart.", verb: "Set level",
    fields: [
      h(Field, { label: "Logger", name: "logger", value: "ROOT", type: "text", required: true, hint: "ROOT, or a name such as my_module" }),
      h("label", { class: "field" }, h("span", null, "Level"), h("select", { name: "level" }, LEVELS.map((one) => h("option", { key: one, value: one }, one)))),
      h(Field, { label: "Duration in seconds", name: "timeout", value: 600, min: 0, required: true, hint: "0: permanent" }),
    ],
    act: (form) => set(form.get("logger"), { target_level: form.get("level"), reset_level: "INFO", timeout: num(form.get("timeout")) }),
  };
}
