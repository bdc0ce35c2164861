// Costs over two numbers that were swept.

const numbersSwept = () =>
  data.parameters.map((each, at) => ({ ...each, at })).filter(({ numeric, values }) => numeric && values.length > 1);

function offerMap(accuracies) {
  if (!$("map-plot")) return;
  const names = numbersSwept().map(({ name, short }) => [name, short]);
  choices("map-x", names, names[0][0], drawMap);
  choices("map-y", names, names[1][0], drawMap);
  choices("map-cost", Object.entries(data.costs), "messages", drawMap);
  choices("map-accuracy", accuracies, data.shown, drawMap);
  choices("map-rest", twice(Object.keys(rests())), Object.keys(rests())[0], drawMap);
}

const mapAxis = (id) => numbersSwept().find(({ name }) => name === $(id).value);

// The cells of each combination of all other settings, by how it is called.
function rests() {
  const axes = [mapAxis("map-x")?.at, mapAxis("map-y")?.at];
  const found = {};
  data.cells.forEach((cell, at) => {
    const texts = data.parameters.map((each, index) =>
      axes.includes(index) ? "" : restText(each, cell.values[index]),
    );
    const text = texts.filter(Boolean).join(", ") || data.methods[cell.method].algorithm;
    (found[text] ??= []).push(at);
  });
  return found;
}

function restText({ name, short }, value) {
  if (value === null) return "";
  return name === "algorithm" ? value : `${short}=${value}`;
}

function drawMap() {
  const plot = $("map-plot");
  if (!plot) return;
  const [x, y] = [mapAxis("map-x"), mapAxis("map-y")];
  const found = rests();
  if (!($("map-rest").value in found)) choices("map-rest", twice(Object.keys(found)), Object.keys(found)[0], drawMap);
  const [cost, accuracy] = [$("map-cost").value, Number($("map-accuracy").value)];
  const rest = $("map-rest").value;
  const mine = new Set(found[rest]);
  const rows = data.reached.filter((row) => row.accuracy === accuracy && mine.has(row.cell));
  const at = (one, other) => rows.find((row) => cellOf(row).values[x.at] === one && cellOf(row).values[y.at] === other);
  const grid = y.values.map((other) => x.values.map((one) => at(one, other)));
  const title = `${data.costs[cost]} to ${power(accuracy)}`;
  const layout = baseLayout({ xaxis: valueAxis(x), yaxis: valueAxis(y) });
  const alone = { title: pictureTitle(`${title}, ${rest}`) };
  show(plot, [mapTrace(grid, x, y, cost, title)], layout, ["map", title, rest], alone);
  $("map-caption").textContent =
    `Median of ${title}, ${rest}. Colours are logarithmic; – where most runs did not get there.`;
}

const valueAxis = ({ short }) => ({ ...axisLayout(short, false), type: "category", showgrid: false, nticks: 0 });

function mapTrace(grid, x, y, cost, title) {
  const each = (act) => grid.map((line) => line.map(act));
  const median = (row) => row?.costs[cost][0] ?? null;
  return {
    type: "heatmap",
    x: x.values,
    y: y.values,
    z: each((row) => (median(row) > 0 ? Math.log10(median(row)) : null)),
    text: each((row) => (row ? number(median(row)) : "")),
    texttemplate: "%{text}",
    customdata: each(mapHover),
    hovertemplate: `${x.short} = %{x}, ${y.short} = %{y}<br>${title}: %{text}<br>%{customdata}<extra></extra>`,
    hoverongaps: true,
    colorscale: "Viridis",
    showscale: false,
    xgap: 2,
    ygap: 2,
  };
}

function mapHover(row) {
  if (!row) return "not run";
  const short = row.short === null ? "" : `, the others came to ${number(row.short)}`;
  return `${row.reached} of ${row.runs} runs got there${short}`;
}
