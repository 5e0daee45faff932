// Where the boxes and lines of a topology's drawing stand. Pure: nodes and edges in, coordinates out.

import dagre from "../vendor/dagre.esm.js";

export const BOX = { width: 188, height: 78 };

/**
 * `names`: the components. `edges`: [{key, from, to, label}], several between two components allowed.
 * Returns {width, height, boxes: {name: {x, y}}, lines: {key: {points, label: {x, y}}}}; x and y are centres.
 */
export function layout(names, edges, direction = "LR") {
  const graph = new dagre.graphlib.Graph({ multigraph: true });
  const apart = names.length > 60 ? { nodesep: 18, ranksep: 90 } : { nodesep: 28, ranksep: 110 };
  graph.setGraph({ rankdir: direction, ...apart, marginx: 12, marginy: 12, ranker: "longest-path" });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const name of names) graph.setNode(name, { ...BOX });
  for (const edge of edges) {
    if (names.includes(edge.from) && names.includes(edge.to)) {
      graph.setEdge(edge.from, edge.to, { width: 64, height: 26, labelpos: "c" }, edge.key);
    }
  }
  dagre.layout(graph);
  const { width, height } = graph.graph();
  const boxes = Object.fromEntries(names.map((name) => [name, { x: graph.node(name).x, y: graph.node(name).y }]));
  const lines = Object.fromEntries(graph.edges().map((edge) => {
    const { points, x, y } = graph.edge(edge);
    return [edge.name, { points, label: { x, y } }];
  }));
  return { width, height, boxes, lines };
}

/** A smooth line through the points, as SVG's path data. */
export function curve(points) {
  const [first, ...rest] = points;
  let path = `M${first.x},${first.y}`;
  for (let at = 0; at < rest.length - 1; at += 1) {
    const middle = { x: (rest[at].x + rest[at + 1].x) / 2, y: (rest[at].y + rest[at + 1].y) / 2 };
    path += ` Q${rest[at].x},${rest[at].y} ${middle.x},${middle.y}`;
  }
  const last = rest.at(-1);
  return `${path} L${last.x},${last.y}`;
}
