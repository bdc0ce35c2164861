"use strict";
// The page's behaviour. All numbers come from Python; this only chooses, draws, sorts and divides.

const $ = (id) => document.getElementById(id);
const make = (tag, attributes = {}, ...children) => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name in element && name !== "list") element[name] = value; else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
};

async function unpack(id) {
  const bytes = Uint8Array.from(atob($(id).textContent), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}

let data, state, groups = [];
const isDark = () => document.documentElement.dataset.theme === "dark";
const tone = (pair) => pair[isDark() ? 1 : 0];
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const faint = (colour, alpha) => {
  const [r, g, b] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
  return `rgba(${r},${g},${b},${alpha})`;
};

// ---------------------------------------------------------------- numbers in words

function number(value) {
  if (value === null || value === undefined) return "–";
  const rounded = parseFloat(value.toPrecision(3)), size = Math.abs(rounded);
  for (const [limit, unit] of [[1e12, " T"], [1e9, " G"], [1e6, " M"], [1e5, " k"]]) {
    if (size >= limit) return `${parseFloat((rounded / (unit === " k" ? 1e3 : limit)).toPrecision(3))}${unit}`;
  }
  if (size >= 1000) return Math.round(value).toLocaleString("en");
  if (size !== 0 && size < 1e-3) return value.toExponential(1);
  return `${parseFloat(value.toPrecision(3))}`;
}

const power = (value) => value.toExponential().replace(/\.0+e/, "e").replace("e+0", "").replace("e-", "e-");

// ---------------------------------------------------------------- groups: what shares a colour

function groupsBy(name) {
  if (name === "method") {
    return data.methods.map((method, at) => ({ name: method.name, colour: method.colour, dash: () => method.dash, has: (cell) => cell.method === at }));
  }
  const at = data.parameters.findIndex((parameter) => parameter.name === name);
  const { values, numeric, short } = data.parameters[at];
  return values.map((value, index) => ({
    name: value === null ? `no ${short}` : `${short} = ${value}`,
    colour: numeric && values.length > 2 ? shade(index / (values.length - 1)) : data.palette[index % data.palette.length],
    dash: methodDash,
    has: (cell) => cell.values[at] === value,
  }));
}

// where colours tell values apart, lines tell methods apart
const methodDash = (cell) => data.dashes[shownMethods().indexOf(cell.method) % data.dashes.length];
const shownMethods = () => [...new Set(data.cells.filter(isShown).map((cell) => cell.method))];

// between the steps of the ordered palette, on light and on dark backgrounds
function shade(share) {
  const mix = (from, to, part) => "#" + [1, 3, 5].map((at) => {
    const [a, b] = [from, to].map((colour) => parseInt(colour.slice(at, at + 2), 16));
    return Math.round(a + (b - a) * part).toString(16).padStart(2, "0");
  }).join("");
  const steps = data.ordered, place = share * (steps.length - 1), low = Math.min(Math.floor(place), steps.length - 2);
  return [0, 1].map((theme) => mix(steps[low][theme], steps[low + 1][theme], place - low));
}

// ---------------------------------------------------------------- panels

const font = () => ({ family: getComputedStyle(document.body).fontFamily, size: 12, color: css("--ink") });
const CONFIG = { displaylogo: false, responsive: true, modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"], toImageButtonOptions: { format: "svg" } };

function axisLayout(title, log, extra = {}) {
  return {
    title: { text: title, standoff: 8, font: { size: 12 } }, type: log ? "log" : "linear", gridcolor: css("--grid"), linecolor: css("--line"), zeroline: false,
    exponentformat: log ? "power" : "SI", tickfont: { size: log ? 9 : 11, color: css("--soft") }, automargin: true, nticks: 6, ...extra, // plotly enlarges powers
  };
}

function baseLayout(more) {
  return {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: font(), showlegend: false, margin: { l: 56, r: 10, t: 10, b: 44 },
    hovermode: "closest", hoverlabel: { bgcolor: css("--paper"), bordercolor: css("--line"), font: { color: css("--ink"), size: 12 }, align: "left" }, ...more,
  };
}

// Parameters that neither colour nor panels tell apart can be held at one value.
function isShown(cell) {
  if (state.group !== "method" && state.method !== "" && data.methods[cell.method].name !== state.method) return false;
  return data.parameters.every(({ name }, at) => !isFree(name) || state.only[name] === undefined || cell.values[at] === state.only[name]);
}
const isFree = (name) => !/^algorithm(\.|$)/.test(name) && name !== state.facet && name !== state.group;

function drawFilters() {
  const method = make("select", {}, ...["", ...data.methods.map(({ name }) => name)].map((value) => make("option", { value, selected: value === state.method }, value || "all")));
  method.dataset.parameter = "method";
  method.onchange = () => { state.method = method.value; drawPanels(); };
  const methods = state.group !== "method" && data.methods.length > 1 ? [make("label", {}, "method", method)] : [];
  $("filters").replaceChildren(...methods, ...data.parameters.filter(({ name }) => isFree(name)).map(({ name, short, values }) => {
    const options = [["all", undefined], ...values.map((value) => [value ?? "none", value])];
    const select = make("select", {}, ...options.map(([text, value]) => make("option", { selected: value === state.only[name] }, text)));
    select.dataset.parameter = name;
    select.onchange = () => { state.only[name] = options[select.selectedIndex][1]; drawPanels(); };
    return make("label", {}, short, select);
  }));
}

function facets() {
  const at = data.parameters.findIndex((parameter) => parameter.name === state.facet);
  if (at < 0) return [{ title: null, has: () => true }];
  const { values, short } = data.parameters[at];
  return values.map((value) => ({ title: value === null ? `no ${short}` : `${short} = ${value}`, has: (cell) => cell.values[at] === value }))
    .filter((facet) => data.cells.some((cell) => facet.has(cell)));
}

// One line and one band per group, kind of line and panel; cells that share them follow each other with a gap between them.
function traces(facet, axis) {
  const lines = [], bands = [], log = isLog(axis);
  const sets = groups.flatMap((group, number_) => {
    const mine = data.cells.filter((cell) => cell.curves[axis] && group.has(cell) && facet.has(cell) && isShown(cell));
    const kinds = [...new Set(mine.map(group.dash))];
    return kinds.map((dash, at) => ({ group, dash, id: at ? `${number_}_${at}` : `${number_}`, cells: mine.filter((cell) => group.dash(cell) === dash) }));
  });
  for (const { group, dash, id, cells } of sets) {
    const line = { x: [], y: [], text: [] }, band = { x: [], y: [] };
    for (const cell of cells) {
      const curves = cell.curves[axis];
      const [median, low, high] = curves[state.measure];
      const drawn = curves.x.map((_, at) => at).filter((at) => curves.x[at] > 0 || !log);  // zero has no logarithm
      line.x.push(...drawn.map((at) => curves.x[at]), null); line.y.push(...drawn.map((at) => median[at]), null);
      line.text.push(...drawn.map(() => cell.label), "");
      if (low) {
        const there = drawn.filter((at) => low[at] !== null && high[at] !== null);
        band.x.push(...there.map((at) => curves.x[at]), ...there.map((at) => curves.x[at]).reverse(), null);
        band.y.push(...there.map((at) => low[at]), ...there.map((at) => high[at]).reverse(), null);
      }
    }
    const colour = tone(group.colour), visible = !state.hidden.has(group.name);
    const shared = { type: "scatter", mode: "lines", name: group.name, meta: group.name, visible, connectgaps: false };
    if (band.x.length) bands.push({ ...shared, ...band, uid: `band${id}`, fill: "toself", fillcolor: faint(colour, isDark() ? 0.22 : 0.16), line: { width: 0 }, hoverinfo: "skip" });
    if (line.x.length) lines.push({ ...shared, ...line, uid: `line${id}`, line: { color: colour, dash, width: 2 }, hovertemplate: `<b>%{text}</b><br>%{y:.3~g} at %{x:.4~s}<extra></extra>` });
  }
  return [...bands, ...lines];
}

function verticalRange() {
  let low = Infinity, high = -Infinity;
  for (const cell of data.cells) {
    for (const curves of Object.values(cell.curves)) {
      for (const value of curves[state.measure][0]) {
        if (value === null || (!isLinear() && value <= 0)) continue;
        low = Math.min(low, value); high = Math.max(high, value);
      }
    }
  }
  if (!(low < Infinity)) return undefined;
  if (isLinear()) return [low - 0.04 * (high - low || 1), high + 0.04 * (high - low || 1)];
  const [from, to] = [Math.log10(low), Math.log10(high)], room = 0.04 * (to - from || 1);
  return [from - room, to + room];
}

const isLinear = () => data.linear.includes(state.measure);

const isLog = (axis) => (state.scale === "auto" ? data.logarithmic.includes(axis) : state.scale === "log");

function drawPanels() {
  drawFilters();
  const panels = $("panels"), chosen = Object.keys(data.axes).filter((axis) => state.axes.has(axis)), rows = facets();
  const columns = Math.max(1, Math.min(chosen.length, rows.length > 1 && !isNarrow() ? 4 : 2));
  for (const old of panels.querySelectorAll(".panel")) Plotly.purge(old);
  panels.replaceChildren();
  panels.style.gridTemplateColumns = `repeat(${columns}, minmax(0, 1fr))`;
  panels.classList.toggle("small", columns > 2);
  const range = verticalRange();
  for (const facet of rows) {
    if (facet.title) panels.append(make("h3", {}, facet.title));
    chosen.forEach((axis, at) => {
      const panel = make("div", { className: "panel" });
      panel.dataset.axis = axis;
      panels.append(panel);
      const first = at % columns === 0;
      const drawn = traces(facet, axis), log = isLog(axis);
      const layout = baseLayout({
        xaxis: axisLayout(data.axes[axis], log, log ? sparse(drawn.flatMap((trace) => trace.x)) : {}),
        yaxis: axisLayout(first ? data.measures[state.measure] : "", !isLinear(), { range, ...(range && !isLinear() ? sparse(range.map((end) => 10 ** end)) : {}) }),
      });
      Plotly.newPlot(panel, drawn, layout, CONFIG);
      panel.on("plotly_hover", (event) => highlight(event.points[0].data.meta));
      panel.on("plotly_unhover", () => highlight(null));
    });
  }
  const repeated = data.cells.some((cell) => cell.runs > 1);
  const several = repeated ? "Lines are medians over seeds, bands reach from the 10 % to the 90 % quantile, as far as at least half of the runs got; a run that is done stays at its last value." : "Each line is one run.";
  $("panels-caption").textContent = `${several}${linesInWords()} Click a name to hide it in all panels, point at it to bring it out.`;
}

function linesInWords() {
  const methods = shownMethods();
  if (state.group === "method" || methods.length < 2) return "";
  if (methods.length > data.dashes.length) return " There are more methods than kinds of lines: choose a method above to see it alone.";
  return ` Lines tell methods apart: ${methods.map((at, number_) => `${data.methods[at].name} ${DASH_WORDS[data.dashes[number_]]}`).join(", ")}.`;
}

function highlight(name) {
  groups.forEach((group, number_) => {
    const opacity = name === null || group.name === name ? "" : "0.13";
    for (const trace of document.querySelectorAll(["line", "band"].map((kind) => `.panel .trace${kind}${number_}, .panel [class*="trace${kind}${number_}_"]`).join())) trace.style.opacity = opacity;
  });
}

function toggle(name) {
  if (!state.hidden.delete(name)) state.hidden.add(name);
  for (const panel of document.querySelectorAll(".panel")) {
    const indices = panel.data.map((trace, at) => (trace.meta === name ? at : -1)).filter((at) => at >= 0);
    if (indices.length) Plotly.restyle(panel, { visible: !state.hidden.has(name) }, indices);
  }
}

const DASH_WORDS = { solid: "solid", dash: "dashed", dot: "dotted", dashdot: "dash and dot", longdash: "long dashes", longdashdot: "long dash and dot" };
const STROKES = { solid: "", dash: "6 4", dot: "2 3", dashdot: "6 3 2 3", longdash: "10 4", longdashdot: "10 3 2 3" };
function drawLegend() {
  $("legend").replaceChildren(...groups.map((group) => {
    const button = make("button", { type: "button" }, group.name);
    button.insertAdjacentHTML("afterbegin", `<svg viewBox="0 0 28 8"><line x1="0" x2="28" y1="4" y2="4" stroke="${tone(group.colour)}" stroke-width="3" stroke-dasharray="${STROKES[state.group === "method" ? group.dash() : "solid"]}"/></svg>`);
    const press = () => button.setAttribute("aria-pressed", !state.hidden.has(group.name));
    press();
    button.onclick = () => { toggle(group.name); press(); };
    button.onmouseenter = () => highlight(group.name);
    button.onmouseleave = () => highlight(null);
    return button;
  }));
}

// ---------------------------------------------------------------- tables

// Columns: {title, word?, text?, value(row), show(row)}; what the word means is told when the heading is pointed at; sorted by a click on a heading, what is missing last.
function table(element, columns, rows, sorted = { column: -1, down: false }) {
  const order = [...rows];
  if (sorted.column >= 0) {
    const { value } = columns[sorted.column], sign = sorted.down ? -1 : 1;
    order.sort((one, other) => {
      const [a, b] = [value(one), value(other)];
      if (a === null || b === null) return (a === null) - (b === null);
      return sign * (typeof a === "string" ? a.localeCompare(b, "en", { numeric: true }) : a - b);
    });
  }
  element.tHead.replaceChildren(make("tr", {}, ...columns.map((column, at) => {
    const down = sorted.column === at && !sorted.down;
    const head = make("th", { className: column.text ? "text" : "", scope: "col" }, make("button", { type: "button", onclick: () => table(element, columns, rows, { column: at, down }) }, column.title));
    if (data.words[column.word ?? column.title]) head.title = data.words[column.word ?? column.title];
    if (sorted.column === at) head.setAttribute("aria-sort", sorted.down ? "descending" : "ascending");
    return head;
  })));
  element.tBodies[0].replaceChildren(...order.map((row) => make("tr", {}, ...columns.map((column) => {
    const shown = column.show(row);
    return make("td", { className: column.text ? "text" : "" }, ...(Array.isArray(shown) ? shown : [shown]));
  }))));
}

const named = (cell) => {
  const dot = make("span", { className: "dot" });
  dot.style.background = tone(data.methods[cell.method].colour);
  return [dot, data.methods[cell.method].name];
};

function costTable() {
  const accuracy = Number($("accuracy").value), rows = data.reached.filter((entry) => entry.accuracy === accuracy);
  const baseline = data.methods.findIndex((method) => method.name === $("baseline").value);
  const partner = (row) => rows.find((other) => data.cells[other.cell].method === baseline && data.cells[other.cell].context === data.cells[row.cell].context);
  const ratio = (row, cost) => {
    const other = partner(row), mine = row.costs[cost][0];
    return other && other.costs[cost][0] > 0 && mine !== null ? mine / other.costs[cost][0] : null;
  };
  const columns = [
    { title: "method", text: true, value: (row) => data.methods[data.cells[row.cell].method].name, show: (row) => named(data.cells[row.cell]) },
    ...data.parameters.map((parameter, at) => ({ ...parameter, at })).filter((parameter) => !/^algorithm(\.|$)/.test(parameter.name)).map((parameter) => ({
      title: parameter.short, text: !parameter.numeric,
      value: (row) => { const value = data.cells[row.cell].values[parameter.at]; return value === null ? null : parameter.numeric ? Number(value) : value; },
      show: (row) => data.cells[row.cell].values[parameter.at] ?? "–",
    })),
    { title: "stay below", value: (row) => row.reached / row.runs, show: (row) => `${row.reached} of ${row.runs}` },
    ...Object.entries(data.costs).map(([cost, title]) => ({
      title, word: cost === "wall" ? "wall" : title, value: (row) => row.costs[cost][0],
      show: (row) => {
        const [median, low, high] = row.costs[cost], times = ratio(row, cost);
        const range = row.runs > 1 ? `10 % to 90 % of the runs: ${number(low)} to ${number(high)}; ` : "";
        const text = make("span", { title: `${range}first reached after ${number(row.first[cost])}` }, number(median));
        return times === null || partner(row) === row ? [text] : [text, make("span", { className: times < 1 ? "ratio good" : "ratio" }, `× ${parseFloat(times.toPrecision(2))}`)];
      },
    })),
    { title: "reached (jumps)", value: (row) => row.first.jumps, show: (row) => number(row.first.jumps) },
  ];
  const before = [...$("cost-table").tHead.querySelectorAll("th")], at = before.findIndex((head) => head.hasAttribute("aria-sort"));
  table($("cost-table"), columns, rows, { column: at, down: at >= 0 && before[at].getAttribute("aria-sort") === "descending" });
  const repeated = rows.some((row) => row.runs > 1), several = data.methods.length > 1;
  const what = `hat it took until the suboptimality stays at or below ${power(accuracy)}, at all record points from there on`;
  const middle = repeated ? `Median over seeds of w${what} (of an even number of runs the larger of the two in the middle); a run that did not get there counts as infinitely expensive.` : `W${what}.`;
  $("cost-caption").textContent = several ? `${middle} Below, the ratio to ${$("baseline").value} in the same setting.` : middle;
}

// Of a logarithmic axis over one or two decades, label 1, 2 and 5, or fewer where they crowd; over more, every so many powers of ten.
function sparse(values) {
  const known = values.filter((value) => value > 0), ends = [Math.min(...known), Math.max(...known)].map(Math.log10), decades = ends[1] - ends[0];
  if (!(decades < 2.5)) return { dtick: Math.ceil(decades / 6) };
  const powers = Array.from({ length: Math.ceil(decades) + 3 }, (_, at) => Math.floor(ends[0]) - 1 + at);
  const places = (digits) => powers.flatMap((exponent) => digits.map((digit) => Number(`${digit}e${exponent}`)));
  const few = (digits) => places(digits).filter((place) => place >= 10 ** ends[0] && place <= 10 ** ends[1]).length <= 5;
  const tickvals = places([[1, 2, 5], [1, 3]].find(few) ?? [1]);
  return { tickmode: "array", tickvals, ticktext: tickvals.map(number), tickangle: 0, tickfont: { size: 11, color: css("--soft") } };
}

function drawRates() {
  if (!$("rates-plot")) return;
  const drawn = data.rates.filter((rate) => rate.predicted > 0 && rate.measured > 0);
  const values = drawn.flatMap((rate) => [rate.predicted, rate.measured]);
  const ends = [Math.min(...values) * 0.6, Math.max(...values) * 1.6];
  const points = data.methods.map((method, at) => {
    const mine = drawn.filter((rate) => data.cells[rate.cell].method === at), colour = tone(method.colour);
    return {
      type: "scatter", mode: "markers", name: method.name, x: mine.map((rate) => rate.predicted), y: mine.map((rate) => rate.measured), text: mine.map((rate) => data.cells[rate.cell].label),
      marker: { size: 11, symbol: mine.map((rate) => (rate.proved ? "circle" : "circle-open")), color: colour, line: { width: 2, color: mine.map((rate) => (rate.violated ? css("--bad") : colour)) } },
      hovertemplate: "<b>%{text}</b><br>predicted %{x:.3~g}, measured %{y:.3~g}<extra></extra>",
    };
  }).filter((trace) => trace.x.length);
  const line = { type: "scatter", mode: "lines", x: ends, y: ends, line: { color: css("--soft"), width: 1 }, hoverinfo: "skip" };
  const layout = baseLayout({ xaxis: axisLayout("predicted rate per step", true, sparse(ends)), yaxis: axisLayout("measured rate per step", true, sparse(ends)) });
  if (values.length) Plotly.newPlot($("rates-plot"), [line, ...points], layout, CONFIG); else $("rates-plot").remove();
  const flag = (rate) => (rate.violated ? make("strong", { className: "bad" }, "not met") : rate.proved ? "met" : "not proved");
  table($("rates-table"), [
    { title: "method", text: true, value: (rate) => data.cells[rate.cell].label, show: (rate) => [named(data.cells[rate.cell])[0], data.cells[rate.cell].label] },
    { title: "predicted", value: (rate) => rate.predicted, show: (rate) => (rate.predicted === null ? "none" : rate.predicted.toExponential(1)) },
    { title: "measured", value: (rate) => rate.measured, show: (rate) => rate.measured.toExponential(1) },
    { title: "ratio", value: (rate) => (rate.predicted ? rate.measured / rate.predicted : null), show: (rate) => (rate.predicted ? number(rate.measured / rate.predicted) : "–") },
    { title: "bound", text: true, value: (rate) => (rate.violated ? 0 : rate.proved ? 1 : 2), show: flag },
  ], data.rates);
}

function drawScaling() {
  if (!$("scaling-plot")) return;
  const [parameter, cost, accuracy] = [$("scaling-parameter").value, $("scaling-cost").value, Number($("scaling-accuracy").value)];
  const chosen = data.scaling.filter((series) => series.parameter === parameter && series.accuracy === accuracy);
  const drawn = chosen.filter((series) => series.costs[cost].some((spread) => spread[0] !== null));
  // neighbours of one colour are told apart by their lines
  const dashes = Object.keys(STROKES), seen = {};
  const lines = drawn.map((series) => {
    const colour = data.methods[series.method].colour, key = colour[0];
    seen[key] = (seen[key] ?? -1) + 1;
    const error = (at) => series.costs[cost].map((spread) => (spread[0] !== null && spread[at] !== null ? Math.abs(spread[at] - spread[0]) : 0));
    return {
      type: "scatter", mode: "lines+markers", name: series.label, x: series.x, y: series.costs[cost].map((spread) => spread[0]),
      line: { color: tone(colour), width: 2, dash: dashes[seen[key] % dashes.length] }, marker: { size: 7 }, error_y: { type: "data", array: error(2), arrayminus: error(1), thickness: 1, width: 3 },
      hovertemplate: `<b>${series.label}</b><br>${series.short} %{x:.3~g}: %{y:.4~s}<extra></extra>`,
    };
  });
  const name = chosen[0]?.short ?? parameter;
  Plotly.newPlot($("scaling-plot"), lines, baseLayout({
    xaxis: axisLayout(name, true, sparse(lines.flatMap((line) => line.x))),
    yaxis: axisLayout(`${data.costs[cost]} to ${power(accuracy)}`, true, sparse(lines.flatMap((line) => line.y))),
  }), CONFIG);
  table($("scaling-table"), [
    { title: "method", text: true, value: (series) => series.label, show: (series) => { const dot = named(series)[0]; return [dot, series.label]; } },
    { title: "slope", value: (series) => series.slopes[cost]?.[0] ?? null, show: (series) => series.slopes[cost]?.[0]?.toFixed(2) ?? "–" },
    { title: "95 % interval", value: (series) => series.slopes[cost]?.[1] ?? null, show: (series) => { const slope = series.slopes[cost]; return slope && slope[1] !== null ? `${slope[1].toFixed(2)} to ${slope[2].toFixed(2)}` : "–"; } },
  ], chosen);
  const what = data.costs[cost][0].toUpperCase() + data.costs[cost].slice(1);
  $("scaling-caption").textContent = `${what} to reach ${power(accuracy)} against ${name}, both logarithmic${data.cells.some((cell) => cell.runs > 1) ? ": medians with 10 % and 90 % quantiles over seeds" : ""}. A slope s means that the cost grows like ${name} to the power s; least squares over all runs, where more than half of them got there.`;
}

function drawMemory() {
  if (!$("memory-plot")) return;
  const shared = { type: "scatter", mode: "lines", hovertemplate: "%{y:,.0f} MB after %{x:.3~g} s<extra></extra>" };
  const used = data.memory.map((run) => ({ ...shared, x: run.x, y: run.y, line: { color: tone(data.methods[run.method].colour), width: 2 }, hovertemplate: `<b>${run.label}</b><br>${shared.hovertemplate}` }));
  const end = Math.max(...data.memory.map((run) => run.x.at(-1)));
  const budgets = [...new Set(data.memory.map((run) => run.budget))].map((budget) => ({ ...shared, x: [0, end], y: [budget, budget], line: { color: css("--soft"), width: 1.5, dash: "dash" }, hovertemplate: `engine.memory: ${number(budget)} MB<extra></extra>` }));
  Plotly.newPlot($("memory-plot"), [...budgets, ...used], baseLayout({ xaxis: axisLayout("seconds", false), yaxis: axisLayout("resident memory in MB", false, { rangemode: "tozero", exponentformat: "none" }) }), CONFIG);
  $("memory-caption").textContent = "Resident memory of the process of each run, Python and its libraries with it, from the start of the engine to its end. Dashed: engine.memory, the budget for data and state.";
}

// ---------------------------------------------------------------- choices

function choices(id, options, chosen, act) {
  const select = $(id);
  if (!select) return;
  select.replaceChildren(...options.map(([value, text]) => make("option", { value, selected: value === String(chosen) }, text)));
  select.onchange = () => act(select.value);
  if (options.length < 2) select.parentElement.hidden = true, select.parentElement.style.display = "none";
}

function regroup() {
  groups = groupsBy(state.group).filter((group) => data.cells.some((cell) => group.has(cell) && Object.keys(cell.curves).length));
  drawLegend();
  drawPanels();
}

function drawAll() {
  if ($("panels")) { regroup(); costTable(); }
  drawRates();
  drawScaling();
  drawMemory();
}

function setUp() {
  const parameters = data.parameters.map((parameter) => [parameter.name, parameter.name]);
  const facetable = data.parameters.filter((parameter) => parameter.values.length <= 8).map((parameter) => [parameter.name, parameter.name]);
  const context = data.parameters.find((parameter) => !/^algorithm(\.|$)/.test(parameter.name) && parameter.name !== data.facet) ?? data.parameters.find((parameter) => parameter.name !== data.facet);
  const group = data.methods.length > 1 || !context ? "method" : context.name;
  state = { measure: "suboptimality", group, facet: data.facet ?? "", scale: "auto", method: "", axes: new Set(data.panels), hidden: new Set(), only: { ...data.focus } };
  choices("measure", Object.entries(data.measures).map(([name]) => [name, name]), state.measure, (value) => { state.measure = value; drawPanels(); });
  choices("group", [["method", "method"], ...parameters], state.group, (value) => { state.group = value; state.hidden.clear(); regroup(); });
  choices("facet", [["", "nothing"], ...facetable], state.facet, (value) => { state.facet = value; drawPanels(); });
  if ($("scale")) $("scale").onchange = () => { state.scale = $("scale").value; drawPanels(); };
  $("axes")?.append(...Object.entries(data.axes).map(([axis, title]) => {
    const box = make("input", { type: "checkbox", checked: state.axes.has(axis), value: axis });
    box.onchange = () => {
      if (box.checked) state.axes.add(axis); else state.axes.delete(axis);
      drawPanels();
    };
    return make("label", {}, box, axis === "time" ? "ideal time" : axis === "wall" ? "wall time" : axis);
  }));
  const accuracies = data.accuracies.map((accuracy) => [String(accuracy), power(accuracy)]);
  choices("accuracy", accuracies, data.shown, costTable);
  choices("baseline", data.methods.map((method) => [method.name, method.name]), data.baseline, costTable);
  const swept = [...new Map(data.scaling.map((series) => [series.parameter, series.parameter]))];
  choices("scaling-parameter", swept, swept[0]?.[0], drawScaling);
  choices("scaling-cost", Object.entries(data.costs), "messages", drawScaling);
  choices("scaling-accuracy", accuracies, data.fitted, drawScaling);
}

let chosenTheme = null;
function setTheme(theme) {
  applyTheme(theme);
  if (data) drawAll();
}
$("theme").onclick = () => { chosenTheme = isDark() ? "light" : "dark"; setTheme(chosenTheme); };
systemTheme.onchange = () => { if (!chosenTheme) setTheme(); };
// paper is white, and narrower than a screen
let printing = false;
function forPaper(on) {
  printing = on;
  document.body.classList.toggle("paper", on);
  setTheme(on ? "light" : chosenTheme);
}
window.onbeforeprint = () => forPaper(true);
window.onafterprint = () => forPaper(false);
const isNarrow = () => printing || window.innerWidth < 900;
let wasNarrow = isNarrow();
window.addEventListener("resize", () => {
  const narrow = isNarrow();
  if (data && $("panels") && narrow !== wasNarrow && !printing) drawPanels();
  wasNarrow = narrow;
});

async function start() {
  if (!$("packed-data")) return;
  const [text, plotly] = await Promise.all([unpack("packed-data"), unpack("packed-plotly")]);
  document.head.append(make("script", { textContent: plotly }));
  data = JSON.parse(text);
  setUp();
  drawAll();
  document.documentElement.dataset.ready = "true";
}
start();
