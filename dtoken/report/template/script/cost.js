// What it cost to reach an accuracy, compared with a baseline.

function drawCost() {
  drawCosts();
  drawSpread();
}

function drawCosts() {
  const accuracy = Number($("accuracy").value);
  const rows = data.reached.filter((row) => row.accuracy === accuracy);
  const columns = [
    {
      title: "method",
      text: true,
      value: (row) => methodOf(row).name,
      show: (row) => dotted(cellOf(row).method, methodOf(row).name),
    },
    ...data.parameters.map(parameterColumn).filter((column) => !isOfMethod(column.name)),
    { title: "stay below", value: (row) => row.reached / row.runs, show: howMany },
    ...Object.entries(data.costs).map(([cost, title]) => costColumn(cost, title, rows)),
    { title: "reached (jumps)", value: (row) => row.first.jumps, show: (row) => number(row.first.jumps) },
  ];
  table($("cost-table"), columns, rows);
  $("cost-caption").textContent = costCaption(accuracy, rows);
}

// How many runs got there, and how close the others came.
function howMany(row) {
  const text = `${row.reached} of ${row.runs}`;
  return row.short === null ? text : [text, make("span", { className: "ratio" }, `came to ${number(row.short)}`)];
}

const cellOf = (row) => data.cells[row.cell];
const methodOf = (row) => data.methods[cellOf(row).method];

function parameterColumn({ name, short, numeric }, at) {
  const value = (row) => cellOf(row).values[at];
  return {
    name,
    title: short,
    text: !numeric,
    value: (row) => (numeric && value(row) !== null ? Number(value(row)) : value(row)),
    show: (row) => value(row) ?? "–",
  };
}

function costColumn(cost, title, rows) {
  return {
    title,
    word: cost === "wall" ? "wall" : title,
    value: (row) => row.costs[cost][0],
    show: (row) => {
      const [median, low, high] = row.costs[cost];
      const spread = row.runs > 1 ? `10 % to 90 % of the runs: ${number(low)} to ${number(high)}; ` : "";
      const title = `${spread}first reached after ${number(row.first[cost])}`;
      const text = make("span", { title }, number(median));
      const other = baselineOf(row, rows);
      const isComparable = other && other !== row && other.costs[cost][0] > 0 && median !== null;
      return isComparable ? [text, ratio(median / other.costs[cost][0])] : [text];
    },
  };
}

const ratio = (times) => make("span", { className: times < 1 ? "ratio good" : "ratio" }, `× ${digits(times, 2)}`);

// The row of the baseline in the same setting.
function baselineOf(row, rows) {
  const name = $("baseline").value;
  return rows.find((other) => methodOf(other).name === name && cellOf(other).context === cellOf(row).context);
}

function costCaption(accuracy, rows) {
  const until = `until the suboptimality stays at or below ${power(accuracy)}, at all record points from there on`;
  const costs = rows.some((row) => row.runs > 1)
    ? `Median over seeds of what it took ${until} (of an even number of runs the larger of the two in the middle); ` +
      "a run that did not get there counts as infinitely expensive."
    : `What it took ${until}.`;
  const compared = ` Below, the ratio to ${$("baseline").value} in the same setting.`;
  return data.methods.length > 1 ? costs + compared : costs;
}
