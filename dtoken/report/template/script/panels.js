// The panels of curves, one for each axis and facet.

const isLinear = () => data.linear.includes(state.measure);
const isLog = (axis) => (state.scale === "auto" ? data.logarithmic.includes(axis) : state.scale === "log");

function drawPanels() {
  drawFilters();
  const panels = $("panels");
  const chosen = Object.keys(data.axes).filter((axis) => state.axes.has(axis));
  const rows = facets();
  const columns = Math.max(1, Math.min(chosen.length, rows.length > 1 && !isNarrow() ? 4 : 2));
  for (const old of panels.querySelectorAll(".panel")) Plotly.purge(old);
  panels.replaceChildren();
  panels.style.gridTemplateColumns = `repeat(${columns}, minmax(0, 1fr))`;
  panels.classList.toggle("small", columns > 2);
  const range = state.zoom.y ?? verticalRange();
  for (const facet of rows) {
    if (facet.title) panels.append(make("h3", {}, facet.title));
    chosen.forEach((axis, at) => drawPanel(facet, axis, at % columns === 0, range));
  }
  $("panels-caption").textContent = panelsCaption();
}

function drawPanel(facet, axis, isFirst, range) {
  const panel = make("div", { className: "panel" });
  panel.dataset.axis = axis;
  $("panels").append(panel);
  const drawn = traces(facet, axis);
  const ticks = range && !isLinear() ? sparse(range.map((end) => 10 ** end)) : {};
  const log = isLog(axis);
  const title = { text: data.measures[state.measure], standoff: 8, font: { size: 12 } };
  const layout = baseLayout({
    xaxis: axisLayout(data.axes[axis], log, horizontal(axis, drawn)),
    yaxis: axisLayout(isFirst ? title.text : "", !isLinear(), { range, ...ticks }),
    dragmode: state.drag,
  });
  const alone = { yaxis: { ...layout.yaxis, title }, title: pictureTitle(facet.title ?? "") };
  show(panel, drawn, layout, [state.measure, AXIS_WORDS[axis] ?? axis, facet.title], alone, WHOLE);
  panel.on("plotly_relayout", (change) => follow(panel, Object.keys(change)));
  panel.on("plotly_hover", (event) => highlight(event.points[0].data.meta));
  panel.on("plotly_unhover", () => highlight(null));
}

// What is shown of a horizontal axis, and its labels.
function horizontal(axis, drawn) {
  const ends = state.zoom[axis];
  if (!isLog(axis)) return ends ? { range: ends } : {};
  const values = ends ? ends.map((end) => 10 ** end) : drawn.flatMap((trace) => trace.x);
  return { ...(ends ? { range: ends } : {}), ...sparse(values) };
}

const WHOLE = {
  name: "whole",
  title: "Show the whole curves",
  get icon() {
    return Plotly.Icons.home;
  },
  click: () => zoom({}),
};

// Zoom is linked: vertically in all panels, horizontally in those of one axis.
function follow(panel, changed) {
  if (!changed.some((key) => /^[xy]axis\.|^dragmode$/.test(key))) return;
  const { xaxis, yaxis, dragmode } = panel.layout;
  state.drag = dragmode;
  const { [panel.dataset.axis]: _, y: __, ...others } = state.zoom;
  const isWhole = yaxis.autorange || String(yaxis.range) === String(verticalRange());
  zoom({
    ...others,
    ...(xaxis.autorange ? {} : { [panel.dataset.axis]: [...xaxis.range] }),
    ...(isWhole ? {} : { y: [...yaxis.range] }),
  });
}

function zoom(ends) {
  state.zoom = ends;
  setTimeout(() => {
    drawPanels();
    remember();
  }); // when plotly is done with the panel that is drawn anew
}

function facets() {
  const at = data.parameters.findIndex((parameter) => parameter.name === state.facet);
  if (at < 0) return [{ title: null, has: () => true }];
  const { values, titles } = data.parameters[at];
  return values
    .map((value, index) => ({ title: titles[index], has: (cell) => cell.values[at] === value }))
    .filter((facet) => data.cells.some((cell) => facet.has(cell)));
}

// One line and one band per group, kind of line and panel.
function traces(facet, axis) {
  const isHere = (cell) => cell.curves[axis] && facet.has(cell) && isShown(cell);
  const sets = groups.flatMap((group, index) => {
    const cells = data.cells.filter((cell) => isHere(cell) && group.has(cell));
    const dashes = [...new Set(cells.map(group.dash))];
    return dashes.map((dash, at) => ({
      group,
      dash,
      id: at ? `${index}_${at}` : `${index}`,
      cells: cells.filter((cell) => group.dash(cell) === dash),
    }));
  });
  const drawn = sets.map((set) => ({ set, ...joined(set.cells, axis) }));
  return [
    ...drawn.filter(({ band }) => band.x.length).map(({ set, band }) => bandTrace(set, band)),
    ...drawn.filter(({ line }) => line.x.length).map(({ set, line }) => lineTrace(set, line)),
  ];
}

// Cells that share a line follow each other with a gap between them.
function joined(cells, axis) {
  const line = { x: [], y: [], text: [] };
  const band = { x: [], y: [] };
  for (const cell of cells) {
    const {
      x,
      [state.measure]: [median, low, high],
    } = cell.curves[axis];
    const drawn = [...x.keys()].filter((at) => x[at] > 0 || !isLog(axis)); // zero has no logarithm
    line.x.push(...drawn.map((at) => x[at]), null);
    line.y.push(...drawn.map((at) => median[at]), null);
    line.text.push(...drawn.map(() => cell.label), "");
    if (low) {
      const there = drawn.filter((at) => low[at] !== null && high[at] !== null);
      const back = [...there].reverse();
      band.x.push(...there.map((at) => x[at]), ...back.map((at) => x[at]), null);
      band.y.push(...there.map((at) => low[at]), ...back.map((at) => high[at]), null);
    }
  }
  return { line, band };
}

const groupTrace = (group) => ({
  type: "scatter",
  mode: "lines",
  name: group.name,
  meta: group.name,
  visible: !state.hidden.has(group.name),
  connectgaps: false,
});

const bandTrace = ({ group, id }, points) => ({
  ...groupTrace(group),
  ...points,
  uid: `band${id}`,
  fill: "toself",
  fillcolor: faint(tone(group.colour), isDark() ? 0.22 : 0.16),
  line: { width: 0 },
  hoverinfo: "skip",
  showlegend: false,
});

const lineTrace = ({ group, dash, id }, points) => ({
  ...groupTrace(group),
  showlegend: !id.includes("_"), // once for each group
  ...points,
  uid: `line${id}`,
  line: { color: tone(group.colour), dash, width: 2 },
  hovertemplate: "<b>%{text}</b><br>%{y:.3~g} at %{x:.4~s}<extra></extra>",
});

// The same for all panels; plotly wants exponents for a logarithmic axis.
function verticalRange() {
  const curves = data.cells.flatMap((cell) => Object.values(cell.curves));
  const values = curves.flatMap((curve) => curve[state.measure][0]);
  const known = values.filter((value) => value !== null && (isLinear() || value > 0));
  if (!known.length) return undefined;
  const least = known.reduce((one, other) => Math.min(one, other));
  const most = known.reduce((one, other) => Math.max(one, other));
  const [from, to] = isLinear() ? [least, most] : [Math.log10(least), Math.log10(most)];
  const room = 0.04 * (to - from || 1);
  return [from - room, to + room];
}

function panelsCaption() {
  const lines = isRepeated()
    ? "Lines are medians over seeds, bands reach from the 10 % to the 90 % quantile, as far as at least half of the " +
      "runs got; a run that is done stays at its last value."
    : "Each line is one run.";
  const errors = data.estimated ? " Bands contain two standard errors of objectives that were estimated." : "";
  return `${lines}${errors}${dashesInWords()} Click a name to hide it in all panels, point at it to bring it out.`;
}

function dashesInWords() {
  const methods = shownMethods();
  if (state.group === "method" || methods.length < 2) return "";
  if (methods.length > data.dashes.length) {
    return " There are more methods than kinds of lines: choose a method above to see it alone.";
  }
  const words = methods.map((at, index) => `${data.methods[at].name} ${DASHES[data.dashes[index]].word}`);
  return ` Lines tell methods apart: ${words.join(", ")}.`;
}
