// The frame of the page: routes choose a view, one Live keeps its answers fresh, and what was lost is said on top.

import { h, render, useEffect, useRef, useState } from "./preact.js";
import { Live, periodS } from "./live.js";
import { parse, to } from "./routes.js";
import { nextTheme, theme } from "./theme.js";
import { clock, duration } from "./format.js";
import { remember, others } from "./nimbuses.js";
import * as cluster from "./views/cluster.js";
import * as topology from "./views/topology.js";
import * as component from "./views/component.js";
import * as transactions from "./views/transactions.js";
import * as states from "./views/states.js";
import * as state from "./views/state.js";
import * as logs from "./views/logs.js";
import * as supervisors from "./views/supervisors.js";
import * as ackers from "./views/ackers.js";
import * as acker from "./views/acker.js";
import * as letterStores from "./views/letter_stores.js";
import * as letters from "./views/letters.js";
import * as letter from "./views/letter.js";
import * as configuration from "./views/configuration.js";
import * as history from "./views/history.js";
import * as pastTopology from "./views/past_topology.js";
import * as pastLogs from "./views/past_logs.js";
import * as shared from "./views/shared.js";
import * as missing from "./views/missing.js";

// A view is: requests(route, data) -> {name: path below /api/v1}, what more may follow from what is known; title(route, data) -> text, View({route, data, …}).
const VIEWS = { cluster, topology, component, transactions, states, state, logs, supervisors, ackers, acker, letterStores, letters, letter, configuration, history, pastTopology, pastLogs, shared, missing };
const NAVIGATION = [["Cluster", ["cluster", "topology", "component", "transactions", "states", "state", "logs", "history", "pastTopology", "pastLogs"], []],
  ["Supervisors", ["supervisors"], ["supervisors"]], ["Ackers", ["ackers", "acker"], ["ackers"]], ["Shared", ["shared"], ["shared"]],
  ["Dead letters", ["letterStores", "letters", "letter"], ["dead-letters"], (cluster) => cluster?.deadLetterStores > 0],
  ["Configuration", ["configuration"], ["configuration"]]];

function App() {
  const [route, setRoute] = useState(() => parse(location.hash));
  const [live, setLive] = useState({ data: {}, errors: {}, connection: "starting" });
  const [said, setSaid] = useState("");
  const poller = useRef(null);
  const main = useRef(null);
  const view = VIEWS[route.name];
  const requests = JSON.stringify({ ...view.requests(route, live.data), nimbuses: "nimbus/summary", cluster: "cluster/summary" });
  useEffect(() => {
    poller.current ??= new Live((state) => {
      remember(state.data.nimbuses);
      if (Object.values(state.errors).some((one) => one.status === 401)) location.assign("login");
      setLive(state);
    });
    poller.current.follow(JSON.parse(requests));
  }, [requests]);
  useEffect(() => {
    const moved = () => setRoute(parse(location.hash));
    addEventListener("hashchange", moved);
    return () => removeEventListener("hashchange", moved);
  }, []);
  const place = JSON.stringify([route.name, route.params]);
  useMoved(place, main);
  document.title = `${view.title(route, live.data)} – tupletree`;
  const say = (text) => {
    setSaid(text);
    setTimeout(() => setSaid((now) => (now === text ? "" : now)), 6000);
    poller.current.now();
  };
  const lost = live.connection === "lost" || live.connection === "no leader";
  return [
    h("a", { class: "skip", href: "#main", onClick: (event) => skip(event, main) }, "Skip to content"),
    h(Top, { route, live }),
    h("div", { role: "status", "aria-live": "polite" }, lost && h(Lost, { live })),
    h("main", { id: "main", ref: main, tabIndex: -1, class: lost ? "old" : null },
      h(view.View, { key: place, route, data: live.data, errors: live.errors, nowS: Date.now() / 1000, say, again: () => poller.current.now() })),
    h(Foot, { live, everyS: periodS(view.requests(route, live.data)) }),
    h("div", { class: "toasts", role: "status", "aria-live": "polite" }, said && h("p", { class: "toast" }, said)),
  ];
}

/** After a change of views the focus goes to the new one, as after loading a page; not at first. */
function useMoved(place, main) {
  const before = useRef(place);
  useEffect(() => {
    if (before.current === place) return;
    before.current = place;
    scrollTo(0, 0);
    main.current.focus({ preventScroll: true });
  }, [place]);
}

function skip(event, main) {
  event.preventDefault(); // the hash is the route
  main.current.focus();
}

function Top({ route, live }) {
  const pulse = { ok: "live", starting: "connecting", lost: "connection lost", "no leader": "no leader" }[live.connection];
  return h("header", { class: "top" }, h("div", { class: "top-row" },
    h("a", { class: "brand", href: to([]) }, h("img", { src: "favicon.svg", alt: "" }), "tupletree"),
    h("nav", { "aria-label": "Pages" }, NAVIGATION.filter(([, , , applies]) => applies?.(live.data.cluster) ?? true).map(([label, names, parts]) =>
      h("a", { key: label, href: to(parts), "aria-current": names.includes(route.name) ? "page" : null }, label))),
    h("span", { class: `pulse ${live.connection === "ok" ? "ok" : live.connection === "starting" ? "starting" : "lost"}` }, pulse),
    h(ThemeSwitch), h(User, { name: live.data.cluster?.user })));
}

/** Who is logged in, where nimbus asks for tokens. */
function User({ name }) {
  if (!name) return null;
  return h("form", { method: "post", action: "logout" }, h("button", { type: "submit", class: "quiet small", title: `Logged in as ${name}` }, `Log out ${name}`));
}

function ThemeSwitch() {
  const [chosen, setChosen] = useState(theme());
  const sign = { auto: "◐", light: "○", dark: "●" }[chosen];
  return h("button", { type: "button", class: "quiet small", title: "Colours: system, light, dark", onClick: () => setChosen(nextTheme()) },
    h("span", { "aria-hidden": "true" }, `${sign} `), h("span", { class: "hidden" }, "Colours: "), chosen);
}

function Lost({ live }) {
  const sinceS = live.connection === "lost" ? live.atS ?? live.sinceS : live.sinceS; // a request waits before it is given up
  const passed = duration(Math.max(0, Math.floor(Date.now() / 1000 - sinceS)));
  const old = live.atS ? ` The data shown is from ${clock(live.atS).slice(11)}.` : "";
  const what = live.connection === "lost"
    ? `This nimbus has not answered for ${passed} (${live.reason}). Retrying every two seconds.${old}`
    : `No nimbus leads: ${live.reason}. Retrying every two seconds.${old}`;
  const elsewhere = others();
  return h("div", { class: "lost-banner" }, h("p", null, what,
    elsewhere.length > 0 && [" This page on another nimbus: ", elsewhere.map((one, at) =>
      [at > 0 && ", ", h("a", { key: one.href, href: one.href }, one.label)]), "."]));
}

function Foot({ live, everyS }) {
  const leader = live.data.nimbuses?.nimbuses?.find((one) => one.status === "Leader");
  return h("footer", { class: "foot" },
    leader && h("span", null, `Leader ${leader.host}:${leader.port}, version ${leader.version}`),
    h("span", null, live.atS ? `Updated ${clock(live.atS).slice(11)}${Number.isFinite(everyS) ? `, refreshes every ${everyS} s` : ""}` : ""));
}

const app = document.getElementById("app");
app.replaceChildren();
render(h(App), app);
