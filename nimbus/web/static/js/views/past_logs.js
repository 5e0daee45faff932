// The logs of a topology that was removed, for as long as the supervisors keep them.

import { h } from "../preact.js";
import { path } from "../api.js";
import { to } from "../routes.js";
import { Missing } from "../parts/bits.js";
import { Logs } from "./logs.js";

export const requests = ({ params }) => ({ past: [path(["history", params.id]), 10] });
export const title = ({ params }, data) => `${data.past?.name ?? params.id}: logs`;

export function View({ data, errors, route }) {
  const { id } = route.params;
  return h("div", null,
    h("div", { class: "title" },
      h("p", { class: "crumb" }, h("a", { href: to([]) }, "Cluster"), " / ", h("a", { href: to(["history"]) }, "Removed topologies"), " / ", h("a", { href: to(["history", id]) }, id)),
      h("h1", null, "Logs")),
    data.past ? h(Logs, { topology: data.past, query: route.query }) : h(Missing, { error: errors.past, what: "topology" }));
}
