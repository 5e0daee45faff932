// The logs of a topology's workers: all together or one, followed or searched.

import { h, useEffect, useRef, useState } from "../preact.js";
import { get, path } from "../api.js";
import { setQuery, to } from "../routes.js";
import { count } from "../format.js";
import { LogFollower } from "../log_follow.js";
import { Missing, Section } from "../parts/bits.js";

const FILES = [["worker.log", "Log"], ["worker.out", "Standard output"], ["events.jsonl", "Sampled tuples"]];
const MAX_MATCHES = 200;

export const requests = ({ params }) => ({ topology: path(["topology", params.id], { window: "600" }) });
export const title = ({ params }, data) => `${data.topology?.name ?? params.id}: logs`;

export function View({ data, errors, route }) {
  const { id } = route.params;
  const topology = data.topology;
  return h("div", null,
    h("div", { class: "title" },
      h("p", { class: "crumb" }, h("a", { href: to([]) }, "Cluster"), " / ", h("a", { href: to(["topology", id]) }, topology?.name ?? id)),
      h("h1", null, "Logs")),
    topology ? h(Logs, { topology, query: route.query }) : h(Missing, { error: errors.topology, what: "topology" }));
}

/** The logs of a topology with these `workers`, one of which `query.port` may choose. */
export function Logs({ topology, query }) {
  const all = (topology.workers ?? []).map((one) => ({ host: one.host, port: one.port }));
  const workers = query.port ? all.filter((one) => `${one.host}:${one.port}` === query.port) : all;
  const file = query.file || "worker.log";
  const [follow, setFollow] = useState(true);
  const [found, setFound] = useState(null);
  return h(Section, { title: query.port ? `Worker ${query.port}` : all.length === 1 ? "The only worker" : `Logs of ${all.length} workers`,
    aside: h(Tools, { all, query, file, follow, setFollow, topology, setFound }) },
  found ? h(Matches, { found, close: () => setFound(null) }) : h(Lines, { key: `${file} ${query.port ?? ""}`, topology, file, workers, follow }));
}

function Tools({ all, query, file, follow, setFollow, topology, setFound }) {
  const [problem, setProblem] = useState("");
  const search = async (event) => {
    event.preventDefault();
    const text = new FormData(event.target).get("text");
    setProblem("");
    if (!text) return setFound(null);
    try {
      setFound(await searched(topology, text, query.port, file));
    } catch (error) {
      setProblem(error.message);
    }
  };
  return h("form", { class: "tools", onSubmit: search, role: "search" },
    h("label", null, h("span", { class: "hidden" }, "Worker"), h("select", { value: query.port ?? "", onChange: (event) => setQuery({ port: event.target.value }) },
      h("option", { value: "" }, "All workers"), all.map((one) => h("option", { key: `${one.host}:${one.port}`, value: `${one.host}:${one.port}` }, `${one.host}:${one.port}`)))),
    h("label", null, h("span", { class: "hidden" }, "File"), h("select", { value: file, onChange: (event) => setQuery({ file: event.target.value === "worker.log" ? "" : event.target.value }) },
      FILES.map(([value, label]) => h("option", { key: value, value }, label)))),
    h("label", { class: "sub" }, h("input", { type: "checkbox", checked: follow, onChange: (event) => setFollow(event.target.checked) }), "follow"),
    h("input", { type: "search", name: "text", placeholder: "Search", "aria-label": "Search the logs" }),
    h("button", { type: "submit" }, "Search"),
    problem && h("span", { class: "problem", role: "alert" }, problem));
}

async function searched(topology, text, port, file) {
  const answer = await get(path(["deepSearch", topology.id], { "search-string": text, "num-matches": MAX_MATCHES, port: port?.split(":").at(-1), file }));
  const groups = answer.matches.filter((one) => !port || `${one.host}:${one.port}` === port);
  return { text, groups, incomplete: answer.incomplete ?? [], number: groups.reduce((total, one) => total + one.numMatches, 0) };
}

/** What the follower says, kept at the end while that is what is looked at. */
function Lines({ topology, file, workers, follow }) {
  const [state, setState] = useState({ lines: null, problems: [] });
  const follower = useRef(null);
  const box = useRef(null);
  const names = workers.map((one) => `${one.host}:${one.port}`).join();
  useEffect(() => {
    follower.current = new LogFollower(topology.id, file, workers, setState);
    return () => follower.current.stop();
  }, [topology.id, file, names]);
  if (follower.current) follower.current.paused = !follow;
  useEffect(() => {
    if (follow && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [state.lines?.at(-1)?.number, follow]);
  const many = workers.length > 1;
  return [
    state.problems.map((one) => h("p", { key: one, class: "problem" }, one)),
    h("div", { class: "log", ref: box, tabIndex: 0, role: "log", "aria-live": "off", "aria-label": "Log" },
      state.lines === null ? h("p", { class: "log-line" }, "Waiting for the log…")
        : state.lines.length === 0 ? h("p", { class: "log-line" }, "The file is empty.")
          : state.lines.map((one) => h("div", { key: one.number, class: `log-line ${one.level}` }, many && h("span", { class: "from" }, one.from), h("span", null, one.line)))),
  ];
}

function Matches({ found, close }) {
  return [
    h("div", { class: "padded tools" }, h("span", { role: "status" }, `${count(found.number)} of “${found.text}”`, found.incomplete.length > 0 && `; ${found.incomplete.join("; ")}`),
      h("button", { type: "button", class: "small", onClick: close }, "Back to the log")),
    h("div", { class: "log", tabIndex: 0, role: "region", "aria-label": "Lines found" },
      found.groups.length === 0 && h("p", { class: "log-line" }, "No matches."),
      found.groups.flatMap((group) => group.matches.map((one) => h("div", { key: `${group.host} ${group.port} ${group.fileName} ${one.byteOffset}`, class: "log-line" },
        h("span", { class: "from" }, `${group.host}:${group.port}`),
        h("span", null, marked(one.line ?? `${one.beforeString}${one.matchString}${one.afterString}`, found.text)))))),
  ];
}

function marked(line, text) {
  const at = line.indexOf(text);
  return at < 0 ? line : [line.slice(0, at), h("mark", null, text), line.slice(at + text.length)];
}
