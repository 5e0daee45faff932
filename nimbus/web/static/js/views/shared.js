// What topologies and other programs share: blobs, and namespaces of trees.

import { h } from "../preact.js";
import { bytes, count, duration, num } from "../format.js";
import { Missing, Section, When } from "../parts/bits.js";
import { Table } from "../parts/table.js";

export const requests = () => ({ blobs: "blob/summary", namespaces: "namespace/summary" });
export const title = () => "Shared";

export function View({ data, errors, nowS }) {
  return h("div", null,
    h("div", { class: "title" }, h("h1", null, "Shared"),
      h("span", { class: "sub" }, "Files for workers, and tuple trees of programs outside topologies.")),
    data.blobs && data.namespaces
      ? [h(Section, { title: "Blobs" }, h(Blobs, { blobs: data.blobs.blobs, nowS })),
        h(Section, { title: "Namespaces of trees" }, h(Namespaces, { namespaces: data.namespaces.namespaces }))]
      : h(Missing, { error: errors.blobs ?? errors.namespaces, what: "answer" }));
}

function Blobs({ blobs, nowS }) {
  const columns = [
    { id: "key", label: "Key", sort: (one) => one.key, cell: (one) => one.key },
    { id: "version", label: "Version", figure: true, sort: (one) => num(one.version), cell: (one) => count(one.version) },
    { id: "bytes", label: "Size", figure: true, sort: (one) => num(one.bytes), cell: (one) => bytes(one.bytes) },
    { id: "owner", label: "Owner", sort: (one) => one.owner, cell: (one) => one.owner || "–" },
    { id: "updated", label: "Updated", sort: (one) => num(one.updatedUnixSeconds), cell: (one) => h(When, { at: one.updatedUnixSeconds, now: nowS }) },
    { id: "topologies", label: "Topologies", cell: (one) => h("span", { class: "wrap" }, one.topologies.join(", ") || "–") },
  ];
  return h(Table, { caption: "Blobs", columns, rows: blobs, rowKey: (one) => one.key, sortBy: "key", empty: "There are no blobs that you may read." });
}

function Namespaces({ namespaces }) {
  const sum = (one, field) => one.ackers.reduce((total, acker) => total + acker[field], 0);
  const figure = (id, label, field, title) => ({ id, label, title, figure: true, sort: (one) => sum(one, field), cell: (one) => count(sum(one, field)) });
  const columns = [
    { id: "name", label: "Namespace", sort: (one) => one.name, cell: (one) => one.name },
    { id: "ackers", label: "Ackers", figure: true, sort: (one) => one.ackers.length, cell: (one) => count(one.ackers.length) },
    figure("clients", "Clients", "clients"), figure("open", "Open", "openTrees", "Trees that have not ended"),
    { id: "max", label: "At most", figure: true, title: "Open trees at each acker", sort: (one) => num(one.ackers[0].maxOpenTrees), cell: (one) => count(one.ackers[0].maxOpenTrees) },
    figure("done", "Done", "done"), figure("failed", "Failed", "failed"), figure("timed-out", "Timed out", "timedOut", "Trees whose client has vanished"),
    figure("refused", "Refused", "refused", "Trees for which there was no room"),
    { id: "timeout", label: "Timeout", figure: true, sort: (one) => num(one.ackers[0].timeoutSeconds), cell: (one) => duration(one.ackers[0].timeoutSeconds) },
  ];
  return h(Table, { caption: "Namespaces of trees", columns, rows: namespaces, rowKey: (one) => one.name, sortBy: "name", empty: "None is configured (acker.trees.namespaces)." });
}
