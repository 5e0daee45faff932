// An address that means nothing here.

import { h } from "../preact.js";
import { to } from "../routes.js";

export const requests = () => ({});
export const title = () => "Not found";

export function View() {
  return h("div", null,
    h("div", { class: "title" }, h("h1", null, "Page not found")),
    h("p", null, h("a", { href: to([]) }, "Show the cluster"), "."));
}
