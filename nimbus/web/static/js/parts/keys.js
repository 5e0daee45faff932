// Configuration as a table of keys and values.

import { h } from "../preact.js";
import { Table } from "./table.js";

/** `values`: key to JSON value. Shown are those whose key or value contains `search`. */
export function Keys({ values, search = "", caption }) {
  const wanted = search.trim().toLowerCase();
  const rows = Object.entries(values).map(([key, value]) => ({ key, text: written(value) }))
    .filter((one) => `${one.key} ${one.text}`.toLowerCase().includes(wanted));
  const columns = [
    { id: "key", label: "Key", sort: (one) => one.key, cell: (one) => breakable(one.key) },
    { id: "value", label: "Value", sort: (one) => one.text, cell: (one) => one.text },
  ];
  return h("div", { class: "keys" }, h(Table, { caption, columns, rows, rowKey: (one) => one.key, sortBy: "key",
    empty: wanted ? `Nothing contains “${search.trim()}”.` : "None is set." }));
}

/** A key that breaks before its dots, where a phone is too narrow for it. */
function breakable(key) {
  return key.split(/(?=\.)/).map((part, at) => [at > 0 && h("wbr"), part]);
}

function written(value) {
  return typeof value === "string" ? value : JSON.stringify(value);
}
