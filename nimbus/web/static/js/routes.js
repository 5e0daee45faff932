// Where the page is, as the part of its address behind "#": the server needs to know nothing of it.
//
//   #/                                   cluster            #/supervisors[?id=]     slots and what runs in them
//   #/topology/<id>                      topology           #/ackers, #/acker/<id>  ledgers
//   #/topology/<id>/component/<name>     component          #/configuration         of the daemons
//   #/topology/<id>/transactions         batches, pipelines, checkpoints
//   #/topology/<id>/states               keys and bytes by component
//   #/topology/<id>/component/<name>/state  the same by task, and entries
//   #/topology/<id>/logs                 logs of all its workers
//   #/shared                            blobs, and namespaces of trees
//   #/history[/<id>[/logs]]              topologies that were removed
//   #/dead-letters                       stores             #/dead-letters/<store>[/<letter>][?topology=, after=]

const PATTERNS = [
  ["cluster", []],
  ["topology", ["topology", ":id"]],
  ["component", ["topology", ":id", "component", ":component"]],
  ["transactions", ["topology", ":id", "transactions"]],
  ["states", ["topology", ":id", "states"]],
  ["state", ["topology", ":id", "component", ":component", "state"]],
  ["logs", ["topology", ":id", "logs"]],
  ["supervisors", ["supervisors"]],
  ["ackers", ["ackers"]],
  ["acker", ["acker", ":id"]],
  ["letterStores", ["dead-letters"]],
  ["letters", ["dead-letters", ":store"]],
  ["letter", ["dead-letters", ":store", ":letter"]],
  ["shared", ["shared"]],
  ["configuration", ["configuration"]],
  ["history", ["history"]],
  ["pastTopology", ["history", ":id"]],
  ["pastLogs", ["history", ":id", "logs"]],
];

/** {name, params, query} of a hash; the name is "missing" where nothing fits. */
export function parse(hash) {
  const [path, search = ""] = hash.replace(/^#/, "").split("?", 2);
  const query = Object.fromEntries(new URLSearchParams(search));
  const parts = path.split("/").filter(Boolean).map(decoded);
  for (const [name, pattern] of PATTERNS) {
    const params = match(pattern, parts);
    if (params) return { name, params, query };
  }
  return { name: "missing", params: {}, query };
}

/** The address of a view: to(["topology", id], {window: 600}). Empty values of the query are left out. */
export function to(parts, query = {}) {
  const kept = Object.entries(query).filter(([, value]) => value !== undefined && value !== "" && value !== null);
  const search = new URLSearchParams(kept).toString();
  return `#/${parts.map(encodeURIComponent).join("/")}${search ? `?${search}` : ""}`;
}

/** Changes the query of the present address without a new entry in the history. */
export function setQuery(changes) {
  const [path, search = ""] = location.hash.replace(/^#/, "").split("?", 2);
  const query = new URLSearchParams(search);
  for (const [name, value] of Object.entries(changes)) {
    if (value === "" || value === null || value === undefined) query.delete(name);
    else query.set(name, value);
  }
  const text = query.toString();
  history.replaceState(null, "", `#${path || "/"}${text ? `?${text}` : ""}`);
  dispatchEvent(new HashChangeEvent("hashchange"));
}

function match(pattern, parts) {
  if (pattern.length !== parts.length) return null;
  const params = {};
  for (const [at, piece] of pattern.entries()) {
    if (piece.startsWith(":")) params[piece.slice(1)] = parts[at];
    else if (piece !== parts[at]) return null;
  }
  return params;
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // a stray percent sign: taken as it stands
  }
}
