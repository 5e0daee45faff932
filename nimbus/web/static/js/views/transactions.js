// Transactions, pipelines and checkpoints of one topology.

import { h } from "../preact.js";
import { path } from "../api.js";
import { to } from "../routes.js";
import { Missing, Pill } from "../parts/bits.js";

export const requests = ({ params }) => ({
  transactions: path(["transactions", params.id]), pipeline: path(["pipeline", params.id]), checkpoints: path(["checkpoints", params.id]),
});
export const title = ({ params }) => `${params.id}: batches and checkpoints`;
export function View({ data, errors }) { return h("div", null, h(Missing, { error: errors.transactions, what: "transactions" })); }
