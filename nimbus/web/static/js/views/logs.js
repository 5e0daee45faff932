import { h } from "../preact.js";
export const requests = ({ params }) => ({});
export const title = ({ params }) => `${params.id}: logs`;
export function View() { return h("div", null); }
