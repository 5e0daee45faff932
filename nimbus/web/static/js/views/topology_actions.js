// What an operator can do to a topology. Nothing happens without a dialog that names it.

import { h, useState } from "../preact.js";
import { path, post } from "../api.js";
import { num, plural } from "../format.js";
import { Ask, Field } from "../parts/dialog.js";

/** The buttons, and the dialog of the one that was pressed. */
export function Actions({ topology, say }) {
  const [asked, setAsked] = useState(null);
  const killed = topology.status === "KILLED";
  const active = topology.status === "ACTIVE";
  const button = (name, text, classes) => h("button", { type: "button", class: classes, onClick: () => setAsked(name) }, text);
  const dialog = asked && DIALOGS[asked](topology);
  return h("div", { class: "buttons", role: "group", "aria-label": `Actions on ${topology.name}` },
    !killed && (active ? button("deactivate", "Deactivate…") : button("activate", "Activate…")),
    !killed && button("rebalance", "Rebalance…"),
    !killed && canRollBack(topology) && button("rollback", "Roll back…"),
    button("kill", "Kill…", "warns"),
    asked && h(Ask, { ...dialog, close: () => setAsked(null), done: () => say(dialog.said) }));
}

const DIALOGS = { activate, deactivate, rebalance, rollback, kill };

/** Whether the topology was updated. */
export const canRollBack = (topology) => num(topology.previousUpdateNumber) !== null;

function activate(topology) {
  return {
    title: `Activate ${topology.name}?`, text: "Its spouts resume emitting.", verb: "Activate",
    said: `${topology.name} is activated.`,
    act: () => post(path(["topology", topology.id, "activate"])),
  };
}

function deactivate(topology) {
  return {
    title: `Deactivate ${topology.name}?`, text: "Its spouts stop emitting; its bolts finish the tuples in flight. Workers keep running.",
    verb: "Deactivate", said: `${topology.name} is deactivated.`,
    act: () => post(path(["topology", topology.id, "deactivate"])),
  };
}

function kill(topology) {
  const wait = num(topology.msgTimeout) ?? 30;
  return {
    title: `Kill ${topology.name}?`, danger: true, verb: `Kill ${topology.name}`, said: `${topology.name} is being killed.`,
    text: "Its spouts stop at once. After the wait its workers stop and the topology is removed. Stored transactions and states remain.",
    fields: h(Field, { label: "Wait, in seconds", name: "wait", value: wait, min: 0, max: 604800, required: true,
      hint: "Maximum time for tuples in flight to finish; default: the message timeout." }),
    act: (form) => post(path(["topology", topology.id, "kill", form.get("wait")])),
  };
}

function rollback(topology) {
  const before = versionName(num(topology.previousUpdateNumber));
  return {
    title: `Roll ${topology.name} back?`, verb: "Roll back", said: `${topology.name} goes back to ${before}.`,
    text: `It runs ${versionName(num(topology.updateNumber))} and goes back to ${before}, with its configuration and its numbers of workers, executors and tasks. Its states stay as they are.`,
    fields: h(Field, { label: "Wait, in seconds", name: "wait", value: num(topology.msgTimeout) ?? 30, min: 0, max: 604800, required: true,
      hint: "Maximum time for tuples in flight to finish; default: the message timeout." }),
    act: (form) => post(path(["topology", topology.id, "rollback", form.get("wait")])),
  };
}

/** What the number of an update is called. */
export function versionName(number) {
  return number ? `update ${number}` : "what was submitted";
}

function rebalance(topology) {
  const components = [...(topology.spouts ?? []), ...(topology.bolts ?? [])]
    .map((one) => ({ name: one.spoutId ?? one.boltId, executors: num(one.executors), tasks: num(one.tasks) }))
    .filter((one) => !one.name.startsWith("__") && !one.name.startsWith("$"));
  return {
    title: `Rebalance ${topology.name}?`, verb: "Rebalance", said: `${topology.name} is being rebalanced.`,
    text: "Its spouts pause for the wait; then workers and executors are redistributed.",
    fields: [
      h(Field, { label: "Workers", name: "workers", value: num(topology.workersTotal), min: 1, max: 2000, required: true }),
      h(Field, { label: "Wait, in seconds", name: "wait", value: num(topology.msgTimeout) ?? 30, min: 0, max: 604800, required: true }),
      h("details", null, h("summary", null, `Executors of ${plural(components.length, "component")}`),
        h("div", { class: "field-grid" }, components.map((one) => h(Field, { key: one.name, label: one.name,
          name: `executors ${one.name}`, value: one.executors, min: 1, max: one.tasks, required: true, hint: `1 to ${one.tasks}` })))),
      h("details", null, h("summary", null, `Tasks of ${plural(components.length, "component")}`),
        h("p", null, "A change replaces every worker, and moves the component's state to the new tasks."),
        h("div", { class: "field-grid" }, components.map((one) => h(Field, { key: one.name, label: `Tasks of ${one.name}`,
          name: `tasks ${one.name}`, value: one.tasks, min: 1, max: 100000, required: true })))),
    ],
    act: (form) => {
      const changed = (what) => Object.fromEntries(components
        .map((one) => [one.name, num(form.get(`${what} ${one.name}`)), one[what]])
        .filter(([, wanted, before]) => wanted !== before).map(([name, wanted]) => [name, wanted]));
      const rebalanceOptions = { numWorkers: num(form.get("workers")), executors: changed("executors"), tasks: changed("tasks") };
      return post(path(["topology", topology.id, "rebalance", form.get("wait")]), { rebalanceOptions });
    },
  };
}
