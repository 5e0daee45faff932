// How far the batches, pipelines and checkpoints of one topology have come, in the words of its tasks and of ZooKeeper.

import { h } from "../preact.js";
import { path } from "../api.js";
import { to } from "../routes.js";
import { bytes, count, duration, exact, num, passed, rate } from "../format.js";
import { ofTopology, verdictOf } from "../health.js";
import { Figures, Missing, Pill, Section, Verdict } from "../parts/bits.js";
import { Table } from "../parts/table.js";

const EPOCH = 2 ** 32;

export const requests = ({ params }) => ({
  transactions: path(["transactions", params.id]), pipeline: path(["pipeline", params.id]), checkpoints: path(["checkpoints", params.id]),
  health: "cluster/health",
});

export const title = ({ params }, data) => `${data.transactions?.topologyName ?? params.id}: batches and checkpoints`;

export function View({ data, errors, route }) {
  const { id } = route.params;
  const name = data.transactions?.topologyName ?? id;
  const known = data.transactions && data.pipeline && data.checkpoints && data.health;
  return h("div", null,
    h("div", { class: "title" },
      h("p", { class: "crumb" }, h("a", { href: to([]) }, "Cluster"), " / ", h("a", { href: to(["topology", id]) }, name)),
      h("h1", null, "Batches and checkpoints"),
      data.checkpoints?.checkpoints.length > 0 && h("div", { class: "buttons" }, h("a", { href: to(["topology", id, "states"]) }, "States"))),
    known ? h(Content, { data }) : h(Missing, { error: errors.transactions ?? errors.pipeline ?? errors.checkpoints, what: "answer" }));
}

function Content({ data }) {
  const coordinators = data.transactions.coordinators ?? [];
  const pipelines = data.pipeline.pipelines ?? [];
  const checkpoints = data.checkpoints.checkpoints ?? [];
  if (!coordinators.length && !pipelines.length && !checkpoints.length) {
    return h(Section, { title: "Nothing to show" }, h("p", { class: "none" },
      "No task of this topology has reported transactions, batches or checkpoints. Its workers may still be starting."));
  }
  return [
    h(Verdict, verdictOf(data.health, ofTopology(data.transactions.topologyId))),
    coordinators.map((one) => h(Coordinator, { key: one.component, one, elsewhere: data.transactions.storedUnavailable })),
    pipelines.map((one) => h(Pipeline, { key: one.component, one })),
    checkpoints.map((one) => h(Checkpoints, { key: one.component, one, id: data.checkpoints.topologyId, elsewhere: data.checkpoints.storedUnavailable })),
  ];
}

function heading(kind, one, name) {
  return { title: `${kind} ${name ?? one.component}`,
    aside: h("span", { class: "tools" }, h("span", { class: "sub" }, `${one.component}, task ${one.task}`), one.state && h(Pill, { text: one.state, level: one.state === "running" ? "ok" : one.state === "stopped" ? "bad" : "note" })) };
}

function Coordinator({ one, elsewhere }) {
  const stored = one.stored;
  return h(Section, heading("Transactions of", one, one.transactionalId),
    h("div", { class: "padded flush" }, h(Figures, { figures: [
      ["Committed txid", exact(one.committedTxid ?? stored?.committed)], ["In flight", count(one.batchesInFlight)],
      ["Oldest batch", duration(one.oldestBatchSeconds ?? 0)], ...lagFigures(one.lag),
      ["Failures", count(one.failures), "Failed attempts since this coordinator began", num(one.failures) > 0 ? "warn" : null],
      stored && ["Stored txid", exact(stored.committed), "Value stored in ZooKeeper"],
      stored && ["Begun", exact(stored.begun), "The last transaction with a defined batch"],
      stored?.partitions > 0 && ["Partitions", count(stored.partitions)],
      stored && ["Epoch", count(stored.epoch), "Number of coordinators so far"]] }),
    elsewhere && h("p", { class: "none" }, `The stored progress is not shown: ${elsewhere}.`)),
    h(Batches, { batches: one.batches ?? [] }));
}

function lagFigures(lag) {
  if (lag === null || lag === undefined) return [];
  if (typeof lag !== "object") return [["Lag", count(lag)]];
  return Object.entries(lag).filter(([, value]) => num(value) !== null).map(([name, value]) => (name === "bytes" ? ["Lag", bytes(value)] : [`Lag, ${name.replaceAll("_", " ")}`, count(value)]));
}

function Pipeline({ one }) {
  return h(Section, heading("Pipeline", one),
    h("div", { class: "padded flush" }, h(Figures, { figures: [
      ["Committed txid", exact(one.committedTxid)], ["In flight", count(one.batchesInFlight)], ["Oldest batch", duration(one.oldestBatchSeconds ?? 0)],
      ["Rows", rate(one.rowsPerSecond)], ["Total rows", count(one.rowsTotal)], ["Batches", count(one.batchesTotal)],
      ["Batch p50", one.batchSeconds?.p50 == null ? "–" : duration(one.batchSeconds.p50)], ["Batch p99", one.batchSeconds?.p99 == null ? "–" : duration(one.batchSeconds.p99)]] })),
    h(Batches, { batches: one.batches ?? [] }));
}

function Batches({ batches }) {
  const columns = [
    { id: "txid", label: "Transaction", sort: (one) => num(one.txid), cell: (one) => String(one.txid ?? "–") },
    { id: "attempt", label: "Attempt", figure: true, sort: (one) => num(one.attempt), title: "The coordinator's epoch and the number of the attempt", cell: (one) => attemptOf(one.attempt) },
    { id: "phase", label: "Phase", sort: (one) => one.phase, cell: (one) => h(Pill, { text: String(one.phase ?? one.state ?? "–"), level: "note" }) },
    { id: "age", label: "Age", figure: true, sort: (one) => num(one.age_s), cell: (one) => duration(one.age_s) },
    { id: "rows", label: "Rows", figure: true, sort: (one) => num(one.rows), cell: (one) => count(one.rows) },
    { id: "failures", label: "Failures", figure: true, sort: (one) => num(one.failures), cell: (one) => count(one.failures) },
    { id: "retry", label: "Retry in", figure: true, sort: (one) => num(one.retry_in_s), cell: (one) => duration(one.retry_in_s) },
  ];
  return h(Table, { caption: "Batches in flight", columns, rows: batches, rowKey: (one) => String(one.txid), sortBy: "txid", empty: "No batch is in flight." });
}

/** An attempt's number holds the epoch of its coordinator in its upper half. */
function attemptOf(attempt) {
  const found = num(attempt);
  return found === null ? "–" : found < EPOCH ? String(found) : `${Math.floor(found / EPOCH)}.${found % EPOCH}`;
}

function Checkpoints({ one, id, elsewhere }) {
  const stored = one.stored;
  const tasks = Object.entries(stored?.tasks ?? {}).map(([component, number]) => ({ component, number }));
  return h(Section, heading("Checkpoints of", one, one.stateId),
    h("div", { class: "padded flush" }, h(Figures, { figures: [
      ["Checkpoint", exact(one.txid ?? stored?.txid)], ["Phase", String(one.phase ?? stored?.phase ?? "–")],
      ["Last made", one.lastCheckpointSeconds == null ? "–" : passed(one.lastCheckpointSeconds)],
      ["Under way", one.step ? `${one.step}, ${duration(one.stepSeconds)}` : "nothing"],
      ["Failures", count(one.failures), "Failed rounds since this checkpoint spout began", num(one.failures) > 0 ? "warn" : null],
      stored && ["Stored", exact(stored.txid), "Value stored in ZooKeeper"], stored && ["Epoch", count(stored.epoch), "Number of checkpoint spouts so far"]] }),
    elsewhere && h("p", { class: "none" }, `The stored progress is not shown: ${elsewhere}.`)),
    tasks.length > 0 && h(Table, { caption: "Tasks with a state in this checkpoint", rows: tasks, rowKey: (row) => row.component, sortBy: "component", narrow: true, columns: [
      { id: "component", label: "Component", sort: (row) => row.component, cell: (row) => h("a", { href: to(["topology", id, "component", row.component, "state"]) }, row.component) },
      { id: "tasks", label: "Tasks with a state", figure: true, sort: (row) => row.number, cell: (row) => count(row.number) }] }));
}
