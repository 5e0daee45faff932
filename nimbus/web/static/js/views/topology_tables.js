// The tables of a topology's page.

import { h, useState } from "../preact.js";
import { linkTo, path, post } from "../api.js";
import { to } from "../routes.js";
import { count, duration, latency, num, share, windowName } from "../format.js";
import { Bar, capacityLevel, When } from "../parts/bits.js";
import { Ask } from "../parts/dialog.js";
import { Table } from "../parts/table.js";

const DUMP_MS = 60_000;

const figure = (id, label, field, write, title) =>
  ({ id, label, title, figure: true, sort: (one) => num(one[field]), cell: (one) => write(one[field]) });

const FAILED = { id: "failed", label: "Failed", figure: true, sort: (one) => num(one.failed),
  cell: (one) => (num(one.failed) > 0 ? h("span", { class: "level-bad" }, count(one.failed)) : count(one.failed)) };

const lastError = (nowS) => ({ id: "error", label: "Last error", sort: (one) => num(one.errorTime),
  cell: (one) => (one.errorTime ? h("span", { class: "level-warn" }, h(When, { at: one.errorTime, now: nowS })) : h("span", { class: "dim" }, "–")) });

const named = (topology, field) => ({ id: "name", label: "Name", sort: (one) => one[field],
  cell: (one) => h("a", { href: to(["topology", topology.id, "component", one[field]]) }, one[field]) });

export function Spouts({ topology, nowS }) {
  const columns = [
    named(topology, "spoutId"),
    figure("executors", "Executors", "executors", count), figure("tasks", "Tasks", "tasks", count),
    figure("emitted", "Emitted", "emitted", count), figure("transferred", "Transferred", "transferred", count, "Each tuple counts once per receiving task"),
    figure("latency", "Complete latency", "completeLatency", latency, "From emit to verdict, mean"),
    figure("acked", "Acked", "acked", count), FAILED, lastError(nowS),
  ];
  return h(Table, { caption: "Spouts", columns, rows: topology.spouts ?? [], rowKey: (one) => one.spoutId, sortBy: "name" });
}

export function Bolts({ topology, nowS }) {
  const columns = [
    named(topology, "boltId"),
    { id: "capacity", label: "Capacity", figure: true, title: "Fraction of the last ten minutes that the busiest executor spent executing; 1.00 is saturated",
      sort: (one) => num(one.capacity), cell: (one) => h(Bar, { value: num(one.capacity), text: share(one.capacity), level: capacityLevel(num(one.capacity)) }) },
    figure("executors", "Executors", "executors", count), figure("tasks", "Tasks", "tasks", count),
    figure("executed", "Executed", "executed", count), figure("emitted", "Emitted", "emitted", count),
    figure("transferred", "Transferred", "transferred", count),
    figure("execute", "Execute latency", "executeLatency", latency, "Inside execute, mean"),
    figure("process", "Process latency", "processLatency", latency, "From receipt to ack, mean"),
    figure("acked", "Acked", "acked", count), FAILED, lastError(nowS),
  ];
  return h(Table, { caption: "Bolts", columns, rows: topology.bolts ?? [], rowKey: (one) => one.boltId, sortBy: "name", empty: "The topology has no bolts." });
}

/** The figures of the four windows beside each other. */
export function Windows({ topology }) {
  const columns = [
    { id: "window", label: "Window", cell: (one) => windowName(one.window) },
    figure("emitted", "Emitted", "emitted", count), figure("transferred", "Transferred", "transferred", count),
    figure("latency", "Complete latency", "completeLatency", latency), figure("acked", "Acked", "acked", count), FAILED,
  ].map(({ sort, ...column }) => column);
  return h(Table, { caption: "Statistics by window", columns, rows: topology.topologyStats ?? [], rowKey: (one) => one.window });
}

export function Workers({ topology, say }) {
  const [asked, setAsked] = useState(null);
  const [dumping, setDumping] = useState(null);
  const [dumped, setDumped] = useState(null);
  const log = (one) => to(["topology", topology.id, "logs"], { port: `${one.host}:${one.port}` });
  const columns = [
    { id: "slot", label: "Slot", sort: (one) => `${one.host}:${one.port}`, cell: (one) => h("a", { href: log(one) }, `${one.host}:${one.port}`) },
    { id: "ready", label: "State", sort: (one) => String(one.ready), cell: (one) => (one.ready === false ? h("span", { class: "level-bad" }, "not ready") : "ready") },
    figure("executors", "Executors", "executorsTotal", count),
    figure("uptime", "Uptime", "uptimeSeconds", duration),
    { id: "pid", label: "Process", figure: true, sort: (one) => num(one.pid), cell: (one) => (one.pid ? String(one.pid) : "–") },
    { id: "restart", label: h("span", { class: "hidden" }, "Actions"), cell: (one) => [
      h("button", { type: "button", class: "small", onClick: () => setDumping(one) }, "Memory…"), " ",
      h("button", { type: "button", class: "small", onClick: () => setAsked(one) }, "Restart…")] },
  ];
  return [
    h(Table, { caption: "Workers", columns, rows: topology.workers ?? [], rowKey: (one) => `${one.host}:${one.port}`, sortBy: "slot", empty: "The topology has no workers." }),
    asked && h(Ask, {
      title: `Restart a worker of ${topology.name}?`,
      text: `The process at ${asked.host}:${asked.port} is killed and restarted. The spouts replay its pending tuples.`,
      verb: "Restart worker", danger: true, close: () => setAsked(null),
      act: () => post(path(["topology", topology.id, "profiling", "restartworker", `${asked.host}:${asked.port}`])),
      done: () => say(`The worker at ${asked.host}:${asked.port} is restarted.`),
    }),
    dumped && h("p", null, `The objects in the memory of ${dumped.worker} are counted in `, h("a", { href: linkTo(path(["dumps", topology.id, dumped.worker, dumped.file])) }, dumped.file), "."),
    dumping && h(Ask, {
      title: `Dump the memory of a worker of ${topology.name}?`,
      text: `The worker at ${dumping.host}:${dumping.port} counts its objects by type, which takes up to 30 seconds; meanwhile its other threads are slower.`,
      verb: "Dump memory", close: () => setDumping(null),
      act: () => post(path(["topology", topology.id, "profiling", "dumpheap", `${dumping.host}:${dumping.port}`]), {}, DUMP_MS),
      done: ({ file }) => setDumped({ worker: `${dumping.host}:${dumping.port}`, file }),
    }),
  ];
}
