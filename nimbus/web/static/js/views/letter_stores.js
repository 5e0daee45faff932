// The stores of dead letters that nimbus is configured with.

import { h } from "../preact.js";
import { to } from "../routes.js";
import { exact, num } from "../format.js";
import { Missing, Pill, Section } from "../parts/bits.js";
import { Table } from "../parts/table.js";

export const requests = () => ({ stores: ["dead-letters", 10] });
export const title = () => "Dead letters";

export function View({ data, errors }) {
  const stores = data.stores?.stores;
  return h("div", null,
    h("div", { class: "title" }, h("h1", null, "Dead letters"),
      h("span", { class: "sub" }, "Messages that were given up, in the stores of nimbus.dead.letters.stores.")),
    stores ? h(Section, { title: "Stores" }, h(Stores, { stores })) : h(Missing, { error: errors.stores, what: "stores" }));
}

function Stores({ stores }) {
  const columns = [
    { id: "name", label: "Name", sort: (one) => one.name, cell: (one) => h("a", { href: to(["dead-letters", one.name]) }, one.name) },
    { id: "count", label: "Letters", figure: true, sort: (one) => num(one.count), cell: (one) => exact(one.count) },
    { id: "state", label: "State", sort: (one) => stateOf(one)[0], cell: (one) => h(Pill, { text: stateOf(one)[0], level: stateOf(one)[1] }) },
    { id: "address", label: "Address", sort: (one) => one.address, cell: (one) => h("span", { class: "mono" }, one.address) },
    { id: "why", label: "Error", cell: (one) => h("span", { class: one.error ? "wrap problem" : null }, one.error || "–") },
  ];
  return h(Table, { caption: "Stores", columns, rows: stores, rowKey: (one) => one.name, empty: "None is configured: see nimbus.dead.letters.stores." });
}

/** [word, level] of a store. */
function stateOf(store) {
  if (store.error) return ["not usable", "bad"];
  return store.count === null ? ["no file yet", "note"] : ["usable", "ok"];
}
