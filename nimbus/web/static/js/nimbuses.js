// Which nimbuses there were when one last answered: where this page can be had when the one that served it is gone.

let known = [];

/** Take in an answer of nimbus/summary. */
export function remember(summary) {
  if (summary?.nimbuses?.length) known = summary.nimbuses;
}

/** The same view at each nimbus but the one that served this page: [{label, href}], the leader first. */
export function others() {
  const here = location.port || (location.protocol === "https:" ? "443" : "80");
  return known
    .filter((one) => one.httpPort && !(same(one.host) && String(one.httpPort) === here))
    .sort((left, right) => (right.status === "Leader") - (left.status === "Leader"))
    .map((one) => ({ label: `${one.host}:${one.httpPort}`, href: `${location.protocol}//${bracketed(one.host)}:${one.httpPort}/${location.hash}` }));
}

function same(host) {
  const local = ["localhost", "127.0.0.1", "::1", "[::1]"];
  return host === location.hostname || (local.includes(host) && local.includes(location.hostname));
}

function bracketed(host) {
  return host.includes(":") && !host.startsWith("[") ? `[${host}]` : host;
}
