// How large the states of one topology are, and how evenly the tasks of each component have them.

import { h } from "../preact.js";
import { path } from "../api.js";
import { to } from "../routes.js";
import { count, exact, num, share, sized } from "../format.js";
import { Missing, Section } from "../parts/bits.js";
import { Table } from "../parts/table.js";
import { Savepoint } from "./savepoint.js";

export const MEASURED_S = 10; // a worker keeps what it has measured for this time
const MAX_EVEN = 2;

export const requests = ({ params }) => ({
  states: [path(["topology", params.id, "states"]), MEASURED_S], savepoint: path(["topology", params.id, "savepoint"]),
});

export const title = ({ params }, data) => `${data.states?.topologyName ?? params.id}: states`;

export function View({ data, errors, route, nowS, say }) {
  const { id } = route.params;
  return h("div", null,
    h("div", { class: "title" },
      h("p", { class: "crumb" }, h("a", { href: to([]) }, "Cluster"), " / ", h("a", { href: to(["topology", id]) }, data.states?.topologyName ?? id)),
      h("h1", null, "States"),
      h("div", { class: "buttons" }, h("a", { href: to(["topology", id, "transactions"]) }, "Batches and checkpoints"))),
    h(Section, { title: "Components with a state", aside: h("span", { class: "sub" }, "committed entries, as the workers have counted or estimated them") },
      data.states ? h(Components, { id, components: data.states.components }) : h("div", { class: "padded" }, h(Missing, { error: errors.states, what: "sizes" }))),
    data.savepoint?.configured && data.states?.components.length > 0 && h(Savepoint, { savepoint: data.savepoint, nowS, say }));
}

function Components({ id, components }) {
  const columns = [
    { id: "component", label: "Component", sort: (one) => one.component, cell: (one) => h("a", { href: to(["topology", id, "component", one.component, "state"]) }, one.component) },
    { id: "provider", label: "Provider", sort: (one) => one.provider, cell: (one) => one.provider || "–" },
    { id: "tasks", label: "Tasks", figure: true, sort: (one) => one.tasks.length, cell: (one) => tasksOf(one) },
    { id: "keys", label: "Keys", figure: true, sort: (one) => num(one.keys), cell: (one) => sized.keys(one) },
    { id: "bytes", label: "Size", figure: true, sort: (one) => num(one.bytes), cell: (one) => sized.bytes(one) },
    { id: "keySkew", label: "Skew by keys", figure: true, title: SKEW, sort: (one) => num(one.keySkew), cell: (one) => h(Skew, { skew: one.keySkew, tasks: one.tasks.length }) },
    { id: "byteSkew", label: "Skew by size", figure: true, title: SKEW, sort: (one) => num(one.byteSkew), cell: (one) => h(Skew, { skew: one.byteSkew, tasks: one.tasks.length }) },
    { id: "checkpoint", label: "Checkpoint", figure: true, sort: checkpointOf, cell: (one) => exact(checkpointOf(one)) },
  ];
  return h(Table, { caption: "States", columns, rows: components, rowKey: (one) => one.component, sortBy: "component", empty: "No component of this topology has a state." });
}

export const SKEW = "The largest task over the mean of all tasks: 1.00 if all have the same";

export const isUneven = (skew, tasks) => tasks > 1 && num(skew) >= MAX_EVEN;

/** The skew, with a mark from twice the mean on. */
export function Skew({ skew, tasks }) {
  return isUneven(skew, tasks) ? h("span", { class: "level-warn" }, share(skew)) : share(skew);
}

/** The last checkpoint that a task of the component has committed; null before the first one. */
export function checkpointOf(one) {
  const known = one.tasks.map((task) => num(task.committedTxid)).filter((txid) => txid !== null);
  return known.length ? Math.max(...known) : null;
}

function tasksOf(one) {
  const unknown = one.tasks.filter((task) => task.failure).length;
  return unknown ? h("span", { class: "level-warn" }, `${count(one.tasks.length)}, ${unknown} unknown`) : count(one.tasks.length);
}
