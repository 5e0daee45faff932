// The cluster: what is wrong first, then topologies, machines, ackers and errors.

import { h } from "../preact.js";
import { to } from "../routes.js";
import { count, duration, latency, num, rate } from "../format.js";
import { verdictOf } from "../health.js";
import { Errors, Figures, Missing, Pill, Section, Verdict } from "../parts/bits.js";
import { Table } from "../parts/table.js";
import { Command } from "../parts/command.js";
import { ackerTable } from "./ackers.js";
import { supervisorTable } from "./supervisors.js";

export const requests = () => ({
  topologies: "topology/summary", supervisors: "supervisor/summary",
  ackers: "acker/summary", overview: "cluster/overview", health: "cluster/health",
});
export const title = () => "Cluster";

export function View({ data, errors, nowS }) {
  const topologies = together(data.topologies?.topologies ?? [], data.overview?.topologies ?? []);
  const supervisors = data.supervisors?.supervisors ?? [];
  const ackers = data.ackers?.ackers ?? [];
  const nimbuses = data.nimbuses?.nimbuses ?? [];
  const known = data.topologies && data.overview && data.supervisors && data.ackers && data.nimbuses && data.health;
  return h("div", null,
    h("div", { class: "title" }, h("h1", null, "Cluster")),
    known ? h(Verdict, verdictOf(data.health))
      : h(Missing, { error: errors.topologies ?? errors.health ?? errors.overview ?? errors.supervisors ?? errors.nimbuses, what: "answer" }),
    known && h(Figures, { figures: figures(data.cluster, topologies, supervisors) }),
    known && h(Section, { title: "Topologies", aside: h("a", { href: to(["history"]) }, "Removed topologies") }, topologies.length ? h(Topologies, { topologies }) : h(Welcome, { nimbuses })),
    known && h("div", { class: "columns" },
      h(Section, { title: "Supervisors", aside: h("a", { href: to(["supervisors"]) }, "Slots and workers") }, supervisorTable(supervisors)),
      h(Section, { title: "Ackers", aside: h("a", { href: to(["ackers"]) }, "All ackers") }, ackerTable(ackers)),
      h(Section, { title: "Nimbuses" }, h(Nimbuses, { nimbuses })),
      h(Section, { title: "Recent errors" }, h(Errors, { errors: lately(topologies), now: nowS, where: whereOf, empty: "None." }))));
}

/** What a topology is, and what it did lately. */
function together(topologies, overview) {
  const lately = new Map(overview.map((one) => [one.id, one]));
  return topologies.map((one) => ({ ...one, ...lately.get(one.id) }));
}

function figures(cluster, topologies, supervisors) {
  const sum = (rows, field) => rows.reduce((total, row) => total + (num(row[field]) ?? 0), 0);
  const slots = cluster?.slotsTotal ?? sum(supervisors, "slotsTotal");
  const used = cluster?.slotsUsed ?? sum(supervisors, "slotsUsed");
  return [
    ["Topologies", count(topologies.length)],
    ["Emitted", rate(sum(topologies, "emittedPerSecond")), "Tuples emitted per second by all topologies"],
    ["Failed, 10 min", count(sum(topologies, "failedLately")), "Tuple trees that failed in the last ten minutes", sum(topologies, "failedLately") > 0 ? "bad" : null],
    ["Pending trees", count(sum(topologies, "pending")), "Tuple trees that the spouts of all topologies wait for now"],
    ["Slots used", `${used} of ${slots}`, "", slots > 0 && used >= slots ? "warn" : null],
    ["Executors", count(cluster?.executorsTotal ?? sum(topologies, "executorsTotal"))],
    ["Tasks", count(cluster?.tasksTotal ?? sum(topologies, "tasksTotal"))],
  ];
}

function Topologies({ topologies }) {
  const columns = [
    { id: "name", label: "Name", sort: (one) => one.name, cell: (one) => h("a", { href: to(["topology", one.id]) }, one.name) },
    { id: "status", label: "Status", sort: (one) => one.status, cell: (one) => h(Pill, { text: one.status }) },
    { id: "workers", label: "Workers ready", figure: true, sort: (one) => num(one.workersReady), cell: workersReady },
    { id: "emitted", label: "Emitted", figure: true, sort: (one) => num(one.emittedPerSecond), cell: (one) => rate(one.emittedPerSecond) },
    { id: "acked", label: "Acked", figure: true, sort: (one) => num(one.ackedPerSecond), cell: (one) => rate(one.ackedPerSecond), title: "Acked tuple trees" },
    { id: "failed", label: "Failed", figure: true, title: "Tuple trees, in the last ten minutes", sort: (one) => num(one.failedLately), cell: failed },
    { id: "latency", label: "Complete latency", figure: true, sort: (one) => num(one.completeLatency), cell: (one) => latency(one.completeLatency), title: "From emit to verdict, mean of the last ten minutes" },
    { id: "pending", label: "Pending", figure: true, title: "Tuple trees that the spouts wait for now", sort: (one) => num(one.pending), cell: (one) => count(one.pending) },
    { id: "uptime", label: "Uptime", figure: true, sort: (one) => num(one.uptimeSeconds), cell: (one) => duration(one.uptimeSeconds) },
    { id: "tasks", label: "Tasks", figure: true, sort: (one) => num(one.tasksTotal), cell: (one) => count(one.tasksTotal) },
    { id: "owner", label: "Owner", sort: (one) => one.owner, cell: (one) => one.owner || "–" },
  ];
  return h(Table, { caption: "Topologies", columns, rows: topologies, rowKey: (one) => one.id, sortBy: "name" });
}

function workersReady(one) {
  const ready = num(one.workersReady);
  const text = `${ready ?? "–"} of ${one.workersTotal}`;
  return ready !== null && ready < one.workersTotal ? h("span", { class: "level-bad" }, text) : text;
}

function failed(one) {
  const text = count(one.failedLately);
  return num(one.failedLately) > 0 ? h("span", { class: "level-bad" }, text) : text;
}

function Nimbuses({ nimbuses }) {
  const columns = [
    { id: "host", label: "Address", sort: (one) => `${one.host}:${one.port}`, cell: (one) => `${one.host}:${one.port}` },
    { id: "status", label: "Status", sort: (one) => one.status, cell: (one) => h(Pill, { text: one.status }) },
    { id: "uptime", label: "Uptime", figure: true, sort: (one) => num(one.nimbusUpTimeSeconds), cell: (one) => duration(one.nimbusUpTimeSeconds) },
    { id: "version", label: "Version", sort: (one) => one.version, cell: (one) => one.version },
  ];
  return h(Table, { caption: "Nimbuses", columns, rows: nimbuses, rowKey: (one) => `${one.host}:${one.port}`, sortBy: "host" });
}

function lately(topologies) {
  return topologies.flatMap((one) => (one.lastErrors ?? []).map((error) => ({ ...error, topology: one })))
    .sort((left, right) => right.errorTime - left.errorTime).slice(0, 20);
}

function whereOf(error) {
  return h("a", { href: to(["topology", error.topology.id, "component", error.component]) }, `${error.topology.name} / ${error.component}`);
}

function Welcome({ nimbuses }) {
  const leader = nimbuses.find((one) => one.status === "Leader");
  const seeds = leader ? ` -c 'nimbus.seeds=["${leader.host}:${leader.port}"]'` : "";
  return h("div", { class: "welcome" },
    h("p", null, "No topology runs yet. Submit one from a machine with Tupletree installed, for example the word count:"),
    h(Command, { text: `tupletree submit examples/word_count.py --name words${seeds}` }),
    h("p", { class: "sub" }, "The topology appears here within two seconds."));
}
