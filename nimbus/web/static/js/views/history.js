// The topologies that were removed and are remembered.

import { h } from "../preact.js";
import { to } from "../routes.js";
import { duration, num } from "../format.js";
import { Missing, Section, When } from "../parts/bits.js";
import { Table } from "../parts/table.js";

export const requests = () => ({ history: ["history/summary", 10] });
export const title = () => "Removed topologies";

export function View({ data, errors, nowS }) {
  const topologies = data.history?.topologies;
  return h("div", null,
    h("div", { class: "title" },
      h("p", { class: "crumb" }, h("a", { href: to([]) }, "Cluster")),
      h("h1", null, "Removed topologies"),
      h("span", { class: "sub" }, "Their last errors, and their logs for as long as the supervisors keep them.")),
    topologies ? h(Section, { title: "Removed topologies" }, h(Topologies, { topologies, nowS })) : h(Missing, { error: errors.history, what: "history" }));
}

function Topologies({ topologies, nowS }) {
  const columns = [
    { id: "id", label: "Id", sort: (one) => one.id, cell: (one) => h("a", { href: to(["history", one.id]) }, one.id) },
    { id: "name", label: "Name", sort: (one) => one.name, cell: (one) => one.name },
    { id: "owner", label: "Owner", sort: (one) => one.owner, cell: (one) => one.owner || "–" },
    { id: "ran", label: "Ran for", figure: true, sort: (one) => num(one.ranForSeconds), cell: (one) => duration(one.ranForSeconds) },
    { id: "removed", label: "Removed", figure: true, sort: (one) => num(one.removedUnixSeconds), cell: (one) => h(When, { at: one.removedUnixSeconds, now: nowS }) },
    { id: "by", label: "Killed by", sort: (one) => one.killedBy, cell: (one) => one.killedBy || "–" },
    { id: "logs", label: "Logs", cell: (one) => h("a", { href: to(["history", one.id, "logs"]) }, "Logs") },
  ];
  return h(Table, { caption: "Removed topologies", columns, rows: topologies, rowKey: (one) => one.id, sortBy: "removed", descending: true, empty: "None is remembered." });
}
