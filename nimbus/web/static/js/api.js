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

/** As get, but numbers stay as the server wrote them, where the browser can: 2 ** 53 + 1, 1.0. For jsonText. */
export function getExact(path) {
  return ask(path, { method: "GET" }, TIMEOUT_MS, asWritten);
}

/** As get, but whole numbers that a browser would round stay as the server wrote them; for jsonText, too. */
export function getLong(path) {
  return ask(path, { method: "GET" }, TIMEOUT_MS, (name, value, context) => (Number.isInteger(value) && !Number.isSafeInteger(value) ? asWritten(name, value, context) : value));
}

/** The JSON text of a value from getExact. */
export const jsonText = (value) => JSON.stringify(value);

/** Posts a JSON body, a value or a text that is JSON already, and returns the JSON that came back. Raises Refusal or Unreachable. */
export function post(path, body = {}, timeoutMs = TIMEOUT_MS) {
  const text = typeof body === "string" ? body : JSON.stringify(body);
  return ask(path, { method: "POST", body: text, headers: { "Content-Type": "application/json" } }, timeoutMs);
}

/** The address of a path below /api/v1, for a link. */
export const linkTo = (path) => ROOT + path;

/** A path below /api/v1 of parts that may hold anything: path("topology", id). Query values that are empty are left out. */
export function path(parts, query = {}) {
  const kept = Object.entries(query).filter(([, value]) => value !== undefined && value !== "" && value !== null);
  const search = new URLSearchParams(kept).toString();
  return parts.map(encodeURIComponent).join("/") + (search ? `?${search}` : "");
}

function asWritten(name, value, context) {
  const isOther = typeof value === "number" && context?.source !== undefined && context.source !== String(value);
  return isOther && JSON.rawJSON ? JSON.rawJSON(context.source) : value;
}

async function ask(where, options, timeoutMs = TIMEOUT_MS, reviver = undefined) {
  let answer, text;
  try {
    answer = await fetch(ROOT + where, {
      ...options,
      headers: { Accept: "application/json", ...options.headers },
      cache: "no-store",
      credentials: "same-origin",
      signal: AbortSignal.timeout(timeoutMs),
    });
    text = await answer.text();
  } catch (error) {
    throw new Unreachable(error.name === "TimeoutError" ? `no answer within ${timeoutMs / 1000} seconds` : "the connection failed");
  }
  let value = null;
  try {
    value = JSON.parse(text, reviver);
  } catch {
    if (answer.ok) throw new Refusal("the response is not JSON", answer.status);
  }
  if (!answer.ok) throw new Refusal(value?.errorMessage || value?.error || `HTTP ${answer.status}`, answer.status);
  return value;
}
