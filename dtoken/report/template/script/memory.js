// Memory of runs that have a budget.

function drawMemory() {
  if (!$("memory-plot")) return;
  const end = Math.max(...data.memory.map((run) => run.x.at(-1)));
  const budgets = [...new Set(data.memory.map((run) => run.budget))];
  const layout = baseLayout({
    xaxis: axisLayout("seconds", false),
    yaxis: axisLayout("resident memory in MB", false, { rangemode: "tozero", exponentformat: "none" }),
  });
  const drawn = [...budgets.map((budget) => budgetLine(budget, end)), ...data.memory.map(memoryLine)];
  show($("memory-plot"), drawn, layout, ["memory"]);
  $("memory-caption").textContent =
    "Resident memory of the process of each run, Python and its libraries with it, from the start of the engine to " +
    "its end. Dashed: engine.memory, the budget for data and state.";
}

const budgetLine = (budget, end) => ({
  type: "scatter",
  mode: "lines",
  name: `budget, ${number(budget)} MB`,
  x: [0, end],
  y: [budget, budget],
  line: { color: css("--soft"), width: 1.5, dash: "dash" },
  hovertemplate: `engine.memory: ${number(budget)} MB<extra></extra>`,
});

const memoryLine = (run) => ({
  type: "scatter",
  mode: "lines",
  name: run.label,
  x: run.x,
  y: run.y,
  line: { color: tone(data.methods[run.method].colour), width: 2 },
  hovertemplate: `<b>${run.label}</b><br>%{y:,.0f} MB after %{x:.3~g} s<extra></extra>`,
});
