// A table that is sorted by its headings, which are buttons: by keyboard as by mouse.
//
// A column is {id, label, cell, sort?, figure?, title?}: `cell(row)` is what is shown, `sort(row)` what it is sorted by.

import { h, useState } from "../preact.js";

/** `rowKey(row)` names a row for ever; `empty` is said where there are no rows. */
export function Table({ caption, columns, rows, rowKey, sortBy = null, descending = false, empty = "None.", rowClass, narrow }) {
  const [order, setOrder] = useState({ id: sortBy, descending });
  if (!rows.length) return h("p", { class: "none" }, empty);
  const sorted = inOrder(rows, columns.find((one) => one.id === order.id), order.descending);
  const turn = (column) =>
    setOrder({ id: column.id, descending: order.id === column.id ? !order.descending : Boolean(column.figure) });
  return h("div", { class: "table-frame", tabIndex: 0, role: "region", "aria-label": `Table: ${caption}` },
    h("table", { class: narrow ? "narrow" : null },
      h("caption", { class: "hidden" }, caption),
      h("thead", null, h("tr", null, columns.map((column) => heading(column, order, turn)))),
      h("tbody", null, sorted.map((row) =>
        h("tr", { key: rowKey(row), class: rowClass?.(row) }, columns.map((column, at) =>
          h(at ? "td" : "th", { key: column.id, class: column.figure ? "figure" : null, scope: at ? null : "row" },
            column.cell(row))))))));
}

function heading(column, order, turn) {
  const chosen = order.id === column.id;
  const direction = order.descending ? "descending" : "ascending";
  const classes = column.figure ? "figure" : null;
  if (!column.sort) return h("th", { key: column.id, scope: "col", class: classes, title: column.title }, column.label);
  return h("th", { key: column.id, scope: "col", class: classes, "aria-sort": chosen ? direction : "none" },
    h("button", { type: "button", class: "sorter", title: column.title, onClick: () => turn(column) },
      column.label,
      h("span", { class: "arrow", "aria-hidden": "true" }, chosen ? (order.descending ? "↓" : "↑") : "")));
}

function inOrder(rows, column, descending) {
  if (!column?.sort) return rows;
  const sign = descending ? -1 : 1;
  return rows.map((row, at) => [column.sort(row), at, row])
    .sort(([left, first], [right, second]) => sign * compare(left, right) || first - second)
    .map(([, , row]) => row);
}

function compare(left, right) {
  if (left === null || left === undefined) return right === null || right === undefined ? 0 : -1;
  if (right === null || right === undefined) return 1;
  if (typeof left === "number" && typeof right === "number") return left - right;
  return String(left).localeCompare(String(right), undefined, { numeric: true });
}
