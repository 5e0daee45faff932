// Every acker service: whether it is fit for work, and how many trees it holds.

import { h } from "../preact.js";
import { to } from "../routes.js";
import { bytes, count, duration, num, rate } from "../format.js";
import { Figures, Missing, Pill, Section } from "../parts/bits.js";
import { Table } from "../parts/table.js";

export const requests = () => ({ ackers: "acker/summary" });
export const title = () => "Ackers";

export function View({ data, errors }) {
  const ackers = data.ackers?.ackers;
  return h("div", null,
    h("div", { class: "title" }, h("h1", null, "Ackers"),
      h("span", { class: "sub" }, "Ackers track tuple trees from the spout's emit until every tuple is acked.")),
    ackers ? h(Content, { ackers }) : h(Missing, { error: errors.ackers, what: "ackers" }));
}

function Content({ ackers }) {
  const sum = (field) => ackers.reduce((total, one) => total + (num(one[field]) ?? 0), 0);
  const oldest = Math.max(0, ...ackers.map((one) => num(one.oldestAgeSeconds) ?? 0));
  return [
    h(Figures, { figures: [["Ackers", count(ackers.length)], ["Pending trees", count(sum("pending"))],
      ["Oldest tree", duration(oldest)], ["Shards", count(sum("shards"))], ["Held", bytes(sum("bytesHeld"))]] }),
    h(Section, { title: "Services" }, ackers.length ? ackerTable(ackers, true)
      : h("p", { class: "none" }, "No acker is registered. Spouts with tracked tuples wait for an acker: ", h("code", null, "tupletree acker"))),
  ];
}

/** A table of ackers; `full` with everything that is known. */
export function ackerTable(ackers, full = false) {
  const columns = [
    { id: "address", label: "Address", sort: (one) => `${one.host}:${one.port}`, cell: (one) => h("a", { href: to(["acker", one.id]) }, `${one.host}:${one.port}`) },
    { id: "state", label: "State", sort: (one) => stateOf(one)[0], cell: (one) => h(Pill, { text: stateOf(one)[0], level: stateOf(one)[1] }) },
    { id: "pending", label: "Pending", figure: true, title: "Tuple trees in the ledger, when the acker was asked last", sort: (one) => num(one.pending), cell: (one) => count(one.pending) },
    { id: "oldest", label: "Oldest", figure: true, sort: (one) => num(one.oldestAgeSeconds), cell: (one) => duration(one.oldestAgeSeconds) },
    { id: "shards", label: "Shards", figure: true, sort: (one) => num(one.shards), cell: (one) => count(one.shards) },
    full && { id: "completed", label: "Completed", figure: true, sort: (one) => num(one.completedPerSecond), cell: (one) => rate(one.completedPerSecond) },
    full && { id: "failed", label: "Failed", figure: true, sort: (one) => num(one.failedPerSecond), cell: (one) => rate(one.failedPerSecond) },
    full && { id: "held", label: "Held", figure: true, sort: (one) => num(one.bytesHeld), cell: (one) => bytes(one.bytesHeld) },
    { id: "uptime", label: "Uptime", figure: true, sort: (one) => num(one.uptimeSeconds), cell: (one) => duration(one.uptimeSeconds) },
    full && { id: "why", label: "Why not ready", cell: (one) => h("span", { class: "wrap" }, (one.reasons ?? []).join("; ") || "–") },
  ].filter(Boolean);
  return h(Table, { caption: "Ackers", columns, rows: ackers, rowKey: (one) => one.id, sortBy: "address", empty: "None is registered." });
}

/** [word, level] of an acker. */
export function stateOf(acker) {
  if (acker.reachable === false) return ["not answering", "bad"];
  if (acker.status === "Unknown") return ["just seen", "note"];
  if (acker.draining) return ["draining", "note"];
  if (acker.ready === false) return ["not ready", "bad"];
  return ["ready", "ok"];
}
