// One topology that was removed: what it did, where it ran, and its last errors.

import { h } from "../preact.js";
import { path } from "../api.js";
import { to } from "../routes.js";
import { clock, count, duration, num } from "../format.js";
import { Errors, Figures, Missing, Section } from "../parts/bits.js";
import { Table } from "../parts/table.js";

export const requests = ({ params }) => ({ past: [path(["history", params.id]), 10] });
export const title = ({ params }, data) => `${data.past?.name ?? params.id}: removed`;

export function View({ route, data, errors, nowS }) {
  const past = data.past;
  return h("div", null,
    h("div", { class: "title" },
      h("p", { class: "crumb" }, h("a", { href: to([]) }, "Cluster"), " / ", h("a", { href: to(["history"]) }, "Removed topologies")),
      h("h1", null, past?.name ?? route.params.id),
      past && h("span", { class: "sub" }, `${past.id}, removed at ${clock(past.removedUnixSeconds)}${past.killedBy ? `, killed by ${past.killedBy}` : ""}`)),
    past ? h(Content, { past, nowS }) : h(Missing, { error: errors.past, what: "topology" }));
}

function Content({ past, nowS }) {
  return [
    h(Figures, { figures: [["Ran for", duration(past.ranForSeconds)], ["Submitted", clock(past.submittedUnixSeconds)],
      ["Owner", past.owner || "–"], ["Version", String(past.updateNumber)]] }),
    past.isShortened && h("p", { class: "sub" }, "Some components, workers, errors or tracebacks did not fit and are left out."),
    h(Section, { title: "Components" }, componentTable(past.components)),
    h(Section, { title: "Workers", aside: h("a", { href: to(["history", past.id, "logs"]) }, "Logs") }, workerTable(past)),
    h(Section, { title: "Last errors" }, h(Errors, { errors: past.errors, now: nowS, where: (error) => h("span", null, error.component), empty: "None." })),
  ];
}

function componentTable(components) {
  const figure = (id, label) => ({ id, label, figure: true, sort: (one) => num(one[id]), cell: (one) => count(one[id]) });
  const columns = [
    { id: "component", label: "Component", sort: (one) => one.component, cell: (one) => one.component },
    figure("tasks", "Tasks"), figure("emitted", "Emitted"), figure("executed", "Executed"), figure("acked", "Acked"), figure("failed", "Failed"),
  ];
  return h(Table, { caption: "Components", columns, rows: components, rowKey: (one) => one.component, sortBy: "component" });
}

function workerTable(past) {
  const columns = [
    { id: "worker", label: "Worker", sort: placeOf, cell: placeOf },
    { id: "supervisor", label: "Supervisor", sort: (one) => one.supervisorId, cell: (one) => h("span", { class: "dim" }, one.supervisorId) },
    { id: "log", label: "Log", cell: (one) => h("a", { href: to(["history", past.id, "logs"], { port: placeOf(one) }) }, "Log") },
  ];
  return h(Table, { caption: "Workers", columns, rows: past.workers, rowKey: placeOf, sortBy: "worker", empty: "It had none when it was removed." });
}

function placeOf(worker) {
  return `${worker.host}:${worker.port}`;
}
