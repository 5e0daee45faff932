// Requests to /api/v1. Nothing else in the page talks to the network.

const ROOT = "api/v1/";
const TIMEOUT_MS = 8000;

/** What the server refused, in its own words. `status` is HTTP's. */
export class Refusal extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

/** Nobody answered: the connection broke, was refused, or took too long. */
export class Unreachable extends Error {}

/** The JSON at a path below /api/v1. Raises Refusal or Unreachable. */
export function get(path) {
  return ask(path, { method: "GET" });
}

/** Posts a JSON body and returns the JSON that came back. Raises Refusal or Unreachable. */
export function post(path, body = {}) {
  return ask(path, { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" } });
}

/** A path below /api/v1 of parts that may hold anything: path("topology", id). Query values that are empty are left out. */
export function path(parts, query = {}) {
  const kept = Object.entries(query).filter(([, value]) => value !== undefined && value !== "" && value !== null);
  const search = new URLSearchParams(kept).toString();
  return parts.map(encodeURIComponent).join("/") + (search ? `?${search}` : "");
}

async function ask(where, options) {
  let answer, text;
  try {
    answer = await fetch(ROOT + where, {
      ...options,
      headers: { Accept: "application/json", ...options.headers },
      cache: "no-store",
      credentials: "same-origin",
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    text = await answer.text();
  } catch (error) {
    throw new Unreachable(error.name === "TimeoutError" ? "no answer within 8 seconds" : "the connection failed");
  }
  let value = null;
  try {
    value = JSON.parse(text);
  } catch {
    if (answer.ok) throw new Refusal("the response is not JSON", answer.status);
  }
  if (!answer.ok) throw new Refusal(value?.errorMessage || value?.error || `HTTP ${answer.status}`, answer.status);
  return value;
}
