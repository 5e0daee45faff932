// The configuration of the daemons, searchable.

import { h, useState } from "../preact.js";
import { Missing, Section } from "../parts/bits.js";
import { Keys } from "../parts/keys.js";

export const requests = () => ({ configuration: "cluster/configuration" });
export const title = () => "Configuration";

export function View({ data, errors }) {
  const [search, setSearch] = useState("");
  return h("div", null,
    h("div", { class: "title" }, h("h1", null, "Configuration"),
      h("span", { class: "sub" }, "Configuration of the leading nimbus. The page of each topology shows the topology's configuration.")),
    data.configuration
      ? h(Section, { title: "Keys", aside: h("input", { type: "search", placeholder: "Search keys and values", "aria-label": "Search keys and values", value: search, onInput: (event) => setSearch(event.target.value) }) },
        h(Keys, { values: data.configuration, search, caption: "Configuration" }))
      : h(Missing, { error: errors.configuration, what: "configuration" }));
}
