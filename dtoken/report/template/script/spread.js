// Costs of the single runs: boxes over seeds.

const MOST_BOXES = 40;

function drawSpread() {
  const plot = $("spread-plot");
  if (!plot) return;
  const [accuracy, cost] = [Number($("accuracy").value), $("spread-cost").value];
  const known = data.reached.filter(
    (row) => row.accuracy === accuracy && row.single[cost]?.length && isShown(cellOf(row)),
  );
  const rows = known.slice(0, MOST_BOXES);
  plot.style.height = `${110 + 30 * rows.length}px`;
  const values = rows.flatMap((row) => row.single[cost]);
  const log = Math.min(...values) > 0 && Math.max(...values) > data.farApart * Math.min(...values);
  const title = `${data.costs[cost]} to ${power(accuracy)}`;
  const layout = baseLayout({
    xaxis: axisLayout(title, log, log ? sparse(values) : { rangemode: "tozero" }),
    yaxis: { ...axisLayout("", false), type: "category", categoryarray: rows.map(boxName).reverse(), automargin: true },
  });
  delete layout.yaxis.nticks;
  show(
    plot,
    data.methods.map((_, at) => boxes(rows, at, cost)).filter((trace) => trace.x.length),
    layout,
    ["spread", title],
  );
  $("spread-caption").textContent = spreadCaption(known.length);
}

const boxName = (row) => cellOf(row).label + (row.reached < row.runs ? ` (${row.reached} of ${row.runs})` : "");

function boxes(rows, method, cost) {
  const mine = rows.filter((row) => cellOf(row).method === method);
  const colour = tone(data.methods[method].colour);
  return {
    type: "box",
    orientation: "h",
    name: data.methods[method].name,
    x: mine.flatMap((row) => row.single[cost]),
    y: mine.flatMap((row) => row.single[cost].map(() => boxName(row))),
    boxpoints: "all",
    jitter: 0.5,
    pointpos: 0,
    width: 0.6,
    marker: { color: colour, size: 5 },
    line: { color: colour, width: 1.5 },
    fillcolor: faint(colour, 0.15),
    hovertemplate: "%{y}: %{x:.4~s}<extra></extra>",
  };
}

function spreadCaption(count) {
  const left =
    count > MOST_BOXES ? ` The first ${MOST_BOXES} of ${count} are shown; hold settings above to see others.` : "";
  return `Each point is a run that got there, boxes reach from quartile to quartile over seeds.${left}`;
}
