// The supervisors, and what runs in each of their slots.

import { h } from "../preact.js";
import { path } from "../api.js";
import { to } from "../routes.js";
import { count, duration, num, plural } from "../format.js";
import { Figures, Missing, Pill, Section } from "../parts/bits.js";
import { Table } from "../parts/table.js";

const ON = "workers on ";

/** The workers are asked for by host, once it is known which there are. */
export function requests(route, data) {
  const hosts = [...new Set((data.supervisors?.supervisors ?? []).map((one) => one.host))];
  return { supervisors: "supervisor/summary", ...Object.fromEntries(hosts.map((host) => [`${ON}${host}`, path(["supervisor"], { host })])) };
}

export const title = () => "Supervisors";

export function View({ data, errors }) {
  const supervisors = data.supervisors?.supervisors;
  return h("div", null,
    h("div", { class: "title" }, h("h1", null, "Supervisors")),
    supervisors ? h(Content, { supervisors, workers: hostAnswers(data).flatMap((one) => one.workers ?? []) }) : h(Missing, { error: errors.supervisors, what: "supervisors" }));
}

function hostAnswers(data) {
  return Object.entries(data).filter(([name]) => name.startsWith(ON)).map(([, answer]) => answer);
}

function Content({ supervisors, workers }) {
  const sum = (field) => supervisors.reduce((total, one) => total + (num(one[field]) ?? 0), 0);
  return [
    h(Figures, { figures: [["Supervisors", count(supervisors.length)], ["Slots", count(sum("slotsTotal"))],
      ["Used", count(sum("slotsUsed"))], ["Free", count(sum("slotsFree")), "", sum("slotsFree") === 0 ? "warn" : null]] }),
    !supervisors.length && h(Section, { title: "Supervisors" }, h("p", { class: "none" },
      "No supervisor is registered. Start one on each machine for workers: ", h("code", null, "tupletree supervisor"))),
    supervisors.map((one) => h(Section, { key: one.id, id: one.id, title: `${one.host} – ${one.id}`,
      aside: h("span", { class: "sub" }, `${one.rack ? `rack ${one.rack}, ` : ""}${plural(num(one.slotsUsed), "slot")} of ${one.slotsTotal} used, up ${duration(one.uptimeSeconds)}, version ${one.version}`) },
    one.isolatedTopology && h("p", { class: "sub" }, `Kept for topology ${one.isolatedTopology}`),
    one.userPool && h("p", { class: "sub" }, `In the pool of ${one.userPool}`),
    one.cgroups && h("p", { class: "sub" }, "The kernel enforces the limits of its workers (control groups)"),
    one.schedulerDisplayResource && h("p", { class: "sub" }, resourcesOf(one)),
    h(Slots, { slots: slotsOf(one, workers) }))),
  ];
}

/** What the executors assigned to a supervisor need, of what it has. */
function resourcesOf(one) {
  const named = one.totalGenericResources ? `; ${one.usedGenericResources || "none"} of ${one.totalGenericResources}` : "";
  return `In use: ${one.usedCpu} of ${one.totalCpu} % of a processor; ${one.usedMem} of ${one.totalMem} MB of memory${named}`;
}

/** One row a slot: the workers that run there, and the free ones. */
function slotsOf(supervisor, workers) {
  const own = workers.filter((one) => one.supervisorId === supervisor.id);
  const taken = new Set(own.map((one) => num(one.port)));
  const free = (supervisor.slots ?? []).filter((port) => !taken.has(num(port))).map((port) => ({ port, free: true }));
  return [...own, ...free].sort((left, right) => num(left.port) - num(right.port));
}

function Slots({ slots }) {
  const columns = [
    { id: "port", label: "Slot", sort: (one) => num(one.port), cell: (one) => String(one.port) },
    { id: "state", label: "State", sort: (one) => stateOf(one)[0], cell: (one) => h(Pill, { text: stateOf(one)[0], level: stateOf(one)[1] }) },
    { id: "topology", label: "Topology", sort: (one) => one.topologyName, cell: (one) => (one.free ? "–" : h("a", { href: to(["topology", one.topologyId]) }, one.topologyName)) },
    { id: "components", label: "Tasks by component", cell: (one) => (one.free ? "–" : tasksOf(one)) },
    { id: "executors", label: "Executors", figure: true, sort: (one) => num(one.executorsTotal), cell: (one) => count(one.executorsTotal) },
    { id: "uptime", label: "Uptime", figure: true, sort: (one) => num(one.uptimeSeconds), cell: (one) => (one.free ? "–" : duration(one.uptimeSeconds)) },
    { id: "pid", label: "Process", figure: true, sort: (one) => num(one.pid), cell: (one) => (one.pid ? String(one.pid) : "–") },
    { id: "log", label: "Log", cell: (one) => (one.free ? "–" : h("a", { href: to(["topology", one.topologyId, "logs"], { port: `${one.host}:${one.port}` }) }, "Log")) },
  ];
  return h(Table, { caption: "Slots", columns, rows: slots, rowKey: (one) => one.port, sortBy: "port", empty: "This supervisor has no slots." });
}

function stateOf(slot) {
  if (slot.free) return ["free", "note"];
  if (slot.ready === false) return ["not ready", "bad"];
  return ["running", "ok"];
}

function tasksOf(worker) {
  const entries = Object.entries(worker.componentNumTasks ?? {});
  const text = entries.slice(0, 6).map(([name, tasks]) => `${name}\u00a0${tasks}`).join(", ");
  return h("span", { class: "wrap" }, text + (entries.length > 6 ? ` and ${entries.length - 6} more` : ""));
}

/** The short table of the cluster page. */
export function supervisorTable(supervisors) {
  const columns = [
    { id: "host", label: "Host", sort: (one) => one.host, cell: (one) => h("a", { href: to(["supervisors"]) }, one.host) },
    { id: "slots", label: "Slots", sort: (one) => num(one.slotsUsed), cell: (one) => h(Squares, { used: num(one.slotsUsed), total: num(one.slotsTotal) }) },
    { id: "used", label: "Used", figure: true, sort: (one) => num(one.slotsUsed), cell: (one) => `${one.slotsUsed} of ${one.slotsTotal}` },
    { id: "uptime", label: "Uptime", figure: true, sort: (one) => num(one.uptimeSeconds), cell: (one) => duration(one.uptimeSeconds) },
    { id: "id", label: "Id", sort: (one) => one.id, cell: (one) => h("span", { class: "dim" }, one.id) },
  ];
  if (supervisors.some((one) => one.rack)) columns.splice(1, 0, { id: "rack", label: "Rack", sort: (one) => one.rack, cell: (one) => one.rack || "–" });
  return h(Table, { caption: "Supervisors", columns, rows: supervisors, rowKey: (one) => one.id, sortBy: "host", empty: "None is registered." });
}

function Squares({ used, total }) {
  const squares = Array.from({ length: Math.min(total, 24) }, (_, at) => h("span", { key: at, class: at < used ? "slot used" : "slot" }));
  return h("span", { class: "slots", style: { gridTemplateColumns: `repeat(${Math.min(total, 8)}, auto)` }, role: "img", "aria-label": `${used} of ${total} used` }, squares);
}
