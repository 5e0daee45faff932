// One acker service: its shards, what it holds, and how trees ended.

import { h } from "../preact.js";
import { path } from "../api.js";
import { to } from "../routes.js";
import { bytes, count, duration, num, rate } from "../format.js";
import { ofDaemon, verdictOf } from "../health.js";
import { Figures, Missing, Pill, Section, Verdict } from "../parts/bits.js";
import { Chart, columns } from "../parts/chart.js";
import { Table } from "../parts/table.js";
import { stateOf } from "./ackers.js";

export const requests = ({ params }) => ({ acker: path(["acker", params.id]), series: path(["acker", params.id, "series"]), health: "cluster/health" });
export const title = ({ params }, data) => (data.acker ? `Acker ${data.acker.host}:${data.acker.port}` : params.id);

export function View({ data, errors, route }) {
  const acker = data.acker;
  return h("div", null,
    h("div", { class: "title" },
      h("p", { class: "crumb" }, h("a", { href: to(["ackers"]) }, "Ackers"), " / ", h("span", { class: "mono" }, route.params.id)),
      h("h1", null, acker ? `${acker.host}:${acker.port}` : "Acker"),
      acker && h(Pill, { text: stateOf(acker)[0], level: stateOf(acker)[1] })),
    acker && data.health ? h(Content, { acker, health: data.health, series: data.series, errors })
      : errors.acker?.status === 404
        ? h("p", null, "Acker not found. An acker gets a new id at each start. ", h("a", { href: to(["ackers"]) }, "See all"), ".")
        : h(Missing, { error: errors.acker, what: "acker" }));
}

function Content({ acker, health, series, errors }) {
  return [
    h(Verdict, verdictOf(health, ofDaemon(acker.id))),
    h(Figures, { figures: [
      ["Pending trees", count(acker.pending)], ["Oldest tree", duration(acker.oldestAgeSeconds)],
      ["Completed", rate(acker.completedPerSecond)], ["Failed", rate(acker.failedPerSecond), "", num(acker.failedPerSecond) > 0 ? "bad" : null],
      ["Timed out", rate(acker.timeoutsPerSecond), "", num(acker.timeoutsPerSecond) > 0 ? "bad" : null],
      ["Shards", count(acker.shardList?.length)], ["Held", bytes(acker.bytesHeld)], ["Uptime", duration(acker.uptimeSeconds)]] }),
    h(Section, { title: "Over time" }, series ? h(Charts, { series }) : h(Missing, { error: errors.series, what: "series" })),
    h(Section, { title: "Shards" }, h(Shards, { shards: acker.shardList ?? [] })),
  ];
}

function Charts({ series }) {
  const { times, line } = columns(series.points ?? []);
  return h("div", { class: "charts" },
    h(Chart, { title: "Pending trees", times, write: count, syncKey: "acker", lines: [line("pending", "pending", "--line-a")] }),
    h(Chart, { title: "Oldest tree", times, write: duration, syncKey: "acker", lines: [line("oldest", "oldestAgeSeconds", "--line-a")] }),
    h(Chart, { title: "Verdicts", times, write: rate, syncKey: "acker", lines: [
      line("completed", "completedPerSecond", "--line-a"), line("failed", "failedPerSecond", "--line-c"), line("timed out", "timeoutsPerSecond", "--line-b")] }));
}

function Shards({ shards }) {
  const figure = (id, label, write = count) => ({ id, label, figure: true, sort: (one) => num(one[id]), cell: (one) => write(one[id]) });
  const shown = [
    { id: "topology", label: "Topology", sort: (one) => one.topologyName ?? one.topologyId, cell: (one) => one.role === "namespace" ? one.topologyName : h("a", { href: to(["topology", one.topologyId]) }, one.topologyName ?? one.topologyId) },
    { id: "shard", label: "Shard", figure: true, sort: (one) => num(one.shard), cell: (one) => String(one.shard) },
    { id: "role", label: "Role", sort: (one) => one.role, cell: (one) => one.role },
    figure("pending", "Pending"), figure("oldestAgeSeconds", "Oldest", duration), figure("inits", "Begun"), figure("acks", "Acks"),
    figure("completed", "Completed"), figure("failed", "Failed"), figure("timeouts", "Timed out"), figure("resets", "Resets"), figure("bytesHeld", "Held", bytes),
  ];
  return h(Table, { caption: "Shards", columns: shown, rows: shards, rowKey: (one) => `${one.topologyId} ${one.shard} ${one.role}`, sortBy: "topology",
    empty: "This acker serves no shard: no topology needs one, or other ackers serve them." });
}
