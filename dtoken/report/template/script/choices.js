// What the reader can choose, and what is chosen at first.

// Fills a list, and says what is chosen in it: what the address asks for, else the usual.
function choices(id, options, chosen, act) {
  const select = $(id);
  if (!select) return undefined;
  usual[id] = String(chosen);
  const wanted = options.some(([value]) => value === asked.get(id)) ? asked.get(id) : usual[id];
  const selected = (value) => ({ value, selected: value === wanted });
  select.replaceChildren(...options.map(([value, text]) => make("option", selected(value), text)));
  select.onchange = () => act(select.value);
  if (options.length < 2) {
    select.parentElement.hidden = true;
    select.parentElement.style.display = "none";
  }
  return select.value;
}

const twice = (names) => names.map((name) => [name, name]);

function setUp() {
  state = {
    method: "", // the one that is shown where colours tell something else apart
    axes: new Set(data.panels),
    hidden: new Set(),
    only: { ...data.focus },
    zoom: {}, // ends of what is shown, by axis; of a logarithmic axis their exponents
    drag: "zoom",
  };
  recall();
  if ($("panels")) {
    offerPanels();
    offerAxes();
  }
  const accuracies = data.accuracies.map((accuracy) => [String(accuracy), power(accuracy)]);
  const swept = twice([...new Set(data.scaling.map((series) => series.parameter))]);
  choices("accuracy", accuracies, data.shown, drawCost);
  choices("baseline", twice(data.methods.map(({ name }) => name)), data.baseline, drawCost);
  choices("scaling-parameter", swept, swept[0]?.[0], drawScaling);
  choices("scaling-cost", Object.entries(data.costs), "messages", drawScaling);
  choices("scaling-accuracy", accuracies, data.fitted, drawScaling);
  choices("spread-cost", Object.entries(data.costs), "messages", drawSpread);
  offerMap(accuracies);
}

const SCALES = [
  ["auto", "automatic"],
  ["linear", "linear"],
  ["log", "logarithmic"],
];

function offerPanels() {
  const names = data.parameters.map(({ name }) => name);
  const short = data.parameters.filter(({ values }) => values.length <= 8).map(({ name }) => name);
  state.measure = choices("measure", twice(Object.keys(data.measures)), "suboptimality", (value) => {
    state.measure = value;
    delete state.zoom.y;
    drawPanels();
  });
  state.group = choices("group", twice(["method", ...names]), data.group, (value) => {
    state.group = value;
    state.hidden.clear();
    regroup();
  });
  state.facet = choices("facet", [["", "nothing"], ...twice(short)], data.facet ?? "", (value) => {
    state.facet = value;
    drawPanels();
  });
  state.scale = choices("scale", SCALES, "auto", (value) => {
    state.scale = value;
    state.zoom = state.zoom.y ? { y: state.zoom.y } : {};
    drawPanels();
  });
}

const AXIS_WORDS = { time: "ideal time", wall: "wall time" };

function offerAxes() {
  for (const axis of Object.keys(data.axes)) {
    const box = make("input", { type: "checkbox", checked: state.axes.has(axis), value: axis });
    box.onchange = () => {
      if (box.checked) state.axes.add(axis);
      else state.axes.delete(axis);
      drawPanels();
    };
    $("axes").append(make("label", {}, box, AXIS_WORDS[axis] ?? axis));
  }
}
