// One component: what it does in each window, what it takes and gives, its executors, its errors.

import { h } from "../preact.js";
import { path } from "../api.js";
import { to } from "../routes.js";
import { bytes, count, duration, latency, millis, num, share, windowName } from "../format.js";
import { ofComponent, verdictOf } from "../health.js";
import { Bar, capacityLevel, Errors, Figures, Missing, Pill, Section, Verdict } from "../parts/bits.js";
import { Table } from "../parts/table.js";
import { Sampling } from "./topology_observation.js";
import { WindowChoice } from "./topology.js";

export function requests({ params, query }) {
  return {
    component: path(["topology", params.id, "component", params.component], { window: query.window || "600", sys: query.sys }),
    health: "cluster/health",
  };
}

export const title = ({ params }) => params.component;

export function View({ data, errors, route, nowS, say }) {
  const { id, component } = route.params;
  const found = data.component;
  return h("div", null,
    h("div", { class: "title" },
      h("p", { class: "crumb" }, h("a", { href: to([]) }, "Cluster"), " / ", h("a", { href: to(["topology", id]) }, found?.name ?? id), " / component"),
      h("h1", null, component), found && h(Pill, { text: found.componentType, level: "note" }), found && h(Pill, { text: found.topologyStatus }),
      found?.hasState && h("div", { class: "buttons" }, h("a", { href: to(["topology", id, "component", component, "state"]) }, "State"))),
    found && data.health ? h(Content, { component: found, health: data.health, route, nowS, say }) : h(Missing, { error: errors.component, what: "component" }));
}

function Content({ component, health, route, nowS, say }) {
  const windows = component.spoutSummary ?? component.boltStats ?? [];
  const now = windows.find((one) => one.window === "600") ?? {};
  const spout = component.componentType === "spout";
  const window = route.query.window || "600";
  return [
    h(Verdict, verdictOf(health, ofComponent(component.topologyId, component.id))),
    h(Figures, { figures: spout ? spoutFigures(component, now) : boltFigures(component, now) }),
    h(Section, { title: "By window" }, h(Windows, { windows, spout })),
    h("div", { class: "columns" },
      !spout && h(Section, { title: "Input streams", aside: h("span", { class: "sub" }, windowName(window)) }, h(Inputs, { component })),
      h(Section, { title: "Output streams", aside: h("span", { class: "sub" }, windowName(window)) }, h(Outputs, { component, spout }))),
    (component.connections ?? []).length > 0 && h(Section, { title: "Source" }, h(Connections, { component })),
    h(Section, { title: "Executors", aside: h(WindowChoice, { window, sys: route.query.sys }) }, h(Executors, { component, spout })),
    h(Section, { title: "Errors" }, h(Errors, { errors: component.componentErrors ?? [], now: nowS, where: (one) => whereOf(component, one), empty: "No errors reported." })),
    h(Section, { title: "Debugging" }, h("div", { class: "padded" },
      h(Sampling, { topology: component, target: ["topology", component.topologyId, "component", component.id], name: component.id, say }))),
  ];
}

function spoutFigures(component, now) {
  return [
    ["Emitted, 10 min", count(now.emitted)], ["Acked, 10 min", count(now.acked)],
    ["Failed, 10 min", count(now.failed), "", num(now.failed) > 0 ? "bad" : null], ["Timed out, 10 min", count(now.timeouts)],
    ["Latency p50", millis(now.completeLatencyPercentiles?.p50)], ["Latency p99", millis(now.completeLatencyPercentiles?.p99)],
    ["Latency p99.9", millis(now.completeLatencyPercentiles?.p999)],
    ["Executors", count(component.executors)], ["Tasks", count(component.tasks)],
  ];
}

function boltFigures(component, now) {
  const capacity = num(now.capacity);
  return [
    ["Executed, 10 min", count(now.executed)], ["Emitted, 10 min", count(now.emitted)],
    ["Failed, 10 min", count(now.failed), "", num(now.failed) > 0 ? "bad" : null],
    ["Capacity", share(capacity), "1.00 is saturated", { bad: "bad", warn: "warn" }[capacityLevel(capacity)]],
    ["Process p50", millis(now.processLatencyPercentiles?.p50)], ["Process p99", millis(now.processLatencyPercentiles?.p99)],
    ["Process p99.9", millis(now.processLatencyPercentiles?.p999)],
    ["Executors", count(component.executors)], ["Tasks", count(component.tasks)],
  ];
}

const figure = (id, label, read, write) => ({ id, label, figure: true, sort: (one) => num(read(one)), cell: (one) => write(read(one)) });
const field = (id, label, write) => figure(id, label, (one) => one[id], write);
const FAILED = { ...field("failed", "Failed", count), cell: (one) => (num(one.failed) > 0 ? h("span", { class: "level-bad" }, count(one.failed)) : count(one.failed)) };
const FLOW = [field("emitted", "Emitted", count), field("transferred", "Transferred", count), field("acked", "Acked", count), FAILED];
const EXECUTES = [field("executed", "Executed", count), field("executeLatency", "Execute latency", latency), field("processLatency", "Process latency", latency)];

function Windows({ windows, spout }) {
  const kind = spout ? "completeLatencyPercentiles" : "processLatencyPercentiles";
  const columns = [
    { id: "window", label: "Window", cell: (one) => windowName(one.window) },
    ...(spout ? [] : EXECUTES.slice(0, 2)), ...FLOW,
    spout ? field("completeLatency", "Complete latency", latency) : EXECUTES[2],
    ...[["p50", "p50"], ["p99", "p99"], ["p999", "p99.9"]].map(([name, label]) => figure(name, label, (one) => one[kind]?.[name], millis)),
    ...(spout ? [field("timeouts", "Timed out", count)] : []),
  ].map(({ sort, ...column }) => column);
  return h(Table, { caption: "Statistics by window", columns, rows: windows, rowKey: (one) => one.window });
}

function Inputs({ component }) {
  const columns = [
    { id: "component", label: "From", sort: (one) => one.component, cell: (one) => h("a", { href: to(["topology", component.topologyId, "component", one.component]) }, one.component) },
    { id: "stream", label: "Stream", sort: (one) => one.stream, cell: (one) => one.stream },
    ...EXECUTES, field("acked", "Acked", count), FAILED,
  ];
  return h(Table, { caption: "Input streams", columns, rows: component.inputStats ?? [], rowKey: (one) => `${one.component} ${one.stream}`, sortBy: "component", empty: "No tuples received in this window." });
}

function Outputs({ component, spout }) {
  const columns = [
    { id: "stream", label: "Stream", sort: (one) => one.stream, cell: (one) => one.stream },
    field("emitted", "Emitted", count), field("transferred", "Transferred", count),
    ...(spout ? [field("completeLatency", "Complete latency", latency), field("acked", "Acked", count), FAILED] : []),
  ];
  return h(Table, { caption: "Output streams", columns, rows: component.outputStats ?? [], rowKey: (one) => one.stream, sortBy: "stream", empty: "No tuples emitted in this window." });
}

function Executors({ component, spout }) {
  const log = (one) => to(["topology", component.topologyId, "logs"], { port: `${one.host}:${one.port}` });
  const columns = [
    { id: "id", label: "Tasks", sort: (one) => num(one.id.slice(1).split("-")[0]), cell: (one) => tasksOf(one.id) },
    { id: "slot", label: "Slot", sort: (one) => `${one.host}:${one.port}`, cell: (one) => (one.workerLogLink ? h("a", { href: log(one) }, `${one.host}:${one.port}`) : one.host ? `${one.host}:${one.port}` : "–") },
    { id: "uptime", label: "Uptime", figure: true, sort: (one) => num(one.uptimeSeconds), cell: (one) => duration(one.uptimeSeconds) },
    ...(spout ? [] : [{ id: "capacity", label: "Capacity", figure: true, sort: (one) => num(one.capacity), cell: (one) => h(Bar, { value: num(one.capacity), text: share(one.capacity), level: capacityLevel(num(one.capacity)) }) }, ...EXECUTES]),
    ...FLOW,
    ...(spout ? [field("completeLatency", "Complete latency", latency), field("pending", "Pending", count)] : [field("queued", "Queued", count)]),
  ];
  return h(Table, { caption: "Executors", columns, rows: component.executorStats ?? [], rowKey: (one) => one.id, sortBy: "id" });
}

function Connections({ component }) {
  const columns = [
    { id: "task", label: "Task", sort: (one) => one.task, cell: (one) => one.task },
    { id: "source", label: "Source", cell: (one) => one.source },
    { id: "connected", label: "State", cell: (one) => (one.connected === true ? h(Pill, { text: "connected", level: "ok" }) : h(Pill, { text: "not connected", level: "bad" })) },
    field("outstanding", "Outstanding", count),
    { id: "lag", label: "Lag", figure: true, sort: (one) => num(one.lag), cell: (one) => (one.lagUnit === "bytes" ? bytes(one.lag) : count(one.lag)) },
    { id: "error", label: "Error", cell: (one) => `${one.error ?? ""}` },
  ];
  return h(Table, { caption: "Source", columns, rows: component.connections, rowKey: (one) => one.task, sortBy: "task" });
}

/** "[3-3]" is task 3, "[3-5]" are tasks 3 to 5. */
function tasksOf(id) {
  const [first, last] = id.replace(/[[\]]/g, "").split("-");
  return first === last ? `task ${first}` : `tasks ${first} to ${last}`;
}

function whereOf(component, one) {
  return h("a", { href: to(["topology", component.topologyId, "logs"], { port: `${one.errorHost}:${one.errorPort}` }) },
    one.task ? `task ${one.task} at ${one.errorHost}:${one.errorPort}` : `${one.errorHost}:${one.errorPort}`);
}
