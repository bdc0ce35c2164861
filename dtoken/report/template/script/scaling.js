// How costs grow with a parameter.

function drawScaling() {
  if (!$("scaling-plot")) return;
  const cost = $("scaling-cost").value;
  const parameter = $("scaling-parameter").value;
  const accuracy = Number($("scaling-accuracy").value);
  const chosen = data.scaling.filter((series) => series.parameter === parameter && series.accuracy === accuracy);
  const name = chosen[0]?.short ?? parameter;
  const lines = scalingLines(chosen, cost);
  const layout = baseLayout({
    xaxis: axisLayout(name, true, atValues(lines.flatMap((line) => line.x))),
    yaxis: axisLayout(`${data.costs[cost]} to ${power(accuracy)}`, true, sparse(lines.flatMap((line) => line.y))),
  });
  show($("scaling-plot"), lines, layout, ["scaling", name, data.costs[cost]]);
  table($("scaling-table"), slopeColumns(cost), chosen);
  $("scaling-caption").textContent = scalingCaption(data.costs[cost], power(accuracy), name);
}

// Those of one algorithm are told apart by their lines.
function scalingLines(chosen, cost) {
  const drawn = chosen.filter((series) => series.costs[cost].some(([median]) => median !== null));
  const dashes = Object.keys(DASHES);
  const seen = {};
  return drawn.map((series) => {
    const { colour, algorithm } = data.methods[series.method];
    const before = seen[algorithm] ?? 0;
    seen[algorithm] = before + 1;
    return scalingLine(series, series.costs[cost], {
      color: tone(colour),
      width: 2,
      dash: dashes[before % dashes.length],
    });
  });
}

function scalingLine(series, spreads, line) {
  const distance = (median, end) => (median !== null && end !== null ? Math.abs(end - median) : 0);
  return {
    type: "scatter",
    mode: "lines+markers",
    name: series.label,
    x: series.x,
    y: spreads.map(([median]) => median),
    line,
    marker: { size: 7 },
    error_y: {
      type: "data",
      array: spreads.map(([median, , high]) => distance(median, high)),
      arrayminus: spreads.map(([median, low]) => distance(median, low)),
      thickness: 1,
      width: 3,
    },
    hovertemplate: `<b>${series.label}</b><br>${series.short} %{x:.3~g}: %{y:.4~s}<extra></extra>`,
  };
}

function slopeColumns(cost) {
  const slope = (series) => series.slopes[cost] ?? [null, null, null];
  return [
    {
      title: "method",
      text: true,
      value: (series) => series.label,
      show: (series) => dotted(series.method, series.label),
    },
    {
      title: "slope",
      value: (series) => slope(series)[0],
      show: (series) => slope(series)[0]?.toFixed(2) ?? "–",
    },
    {
      title: "95 % interval",
      value: (series) => slope(series)[1],
      show: (series) => {
        const [, low, high] = slope(series);
        return low === null ? "–" : `${low.toFixed(2)} to ${high.toFixed(2)}`;
      },
    },
  ];
}

function scalingCaption(cost, accuracy, name) {
  const spread = isRepeated() ? ": medians with 10 % and 90 % quantiles over seeds" : "";
  return (
    `${cost[0].toUpperCase()}${cost.slice(1)} to reach ${accuracy} against ${name}, both logarithmic${spread}. ` +
    `A slope s means that the cost grows like ${name} to the power s; least squares over all runs, where more than ` +
    "half of them got there."
  );
}
