// Rates: what theory predicts and what was measured.

function drawRates() {
  if (!$("rates-plot")) return;
  const drawn = data.rates.filter((rate) => rate.predicted > 0 && rate.measured > 0);
  if (drawn.length) plotRates(drawn);
  else $("rates-plot").remove();
  table($("rates-table"), RATE_COLUMNS, data.rates);
}

function plotRates(rates) {
  const values = rates.flatMap((rate) => [rate.predicted, rate.measured]);
  const ends = [Math.min(...values) * 0.6, Math.max(...values) * 1.6];
  const points = data.methods.map((method, at) =>
    ratePoints(
      method,
      rates.filter((rate) => cellOf(rate).method === at),
    ),
  );
  const line = {
    type: "scatter",
    mode: "lines",
    x: ends,
    y: ends,
    line: { color: css("--soft"), width: 1 },
    hoverinfo: "skip",
    showlegend: false,
  };
  const layout = baseLayout({
    xaxis: axisLayout("predicted rate per step", true, sparse(ends)),
    yaxis: axisLayout("measured rate per step", true, sparse(ends)),
  });
  show($("rates-plot"), [line, ...points.filter((trace) => trace.x.length)], layout, ["rates"]);
}

function ratePoints(method, rates) {
  const colour = tone(method.colour);
  return {
    type: "scatter",
    mode: "markers",
    name: method.name,
    x: rates.map((rate) => rate.predicted),
    y: rates.map((rate) => rate.measured),
    text: rates.map((rate) => cellOf(rate).label),
    marker: {
      size: 11,
      symbol: rates.map((rate) => (rate.proved ? "circle" : "circle-open")),
      color: colour,
      line: { width: 2, color: rates.map((rate) => (rate.violated ? css("--bad") : colour)) },
    },
    hovertemplate: "<b>%{text}</b><br>predicted %{x:.3~g}, measured %{y:.3~g}<extra></extra>",
  };
}

const RATE_COLUMNS = [
  {
    title: "method",
    text: true,
    value: (rate) => cellOf(rate).label,
    show: (rate) => dotted(cellOf(rate).method, cellOf(rate).label),
  },
  {
    title: "predicted",
    value: (rate) => rate.predicted,
    show: (rate) => (rate.predicted === null ? "none" : rate.predicted.toExponential(1)),
  },
  {
    title: "measured",
    value: (rate) => rate.measured,
    show: (rate) => rate.measured.toExponential(1),
  },
  {
    title: "ratio",
    value: (rate) => (rate.predicted ? rate.measured / rate.predicted : null),
    show: (rate) => (rate.predicted ? number(rate.measured / rate.predicted) : "–"),
  },
  {
    title: "bound",
    text: true,
    value: (rate) => (rate.violated ? 0 : rate.proved ? 1 : 2),
    show: bound,
  },
];

function bound(rate) {
  if (rate.violated) return make("strong", { className: "bad" }, "not met");
  return rate.proved ? "met" : "not proved";
}
