// What the reader can choose, and what is chosen at first.

function choices(id, options, chosen, act) {
  const select = $(id);
  if (!select) return;
  const selected = (value) => ({ value, selected: value === String(chosen) });
  select.replaceChildren(...options.map(([value, text]) => make("option", selected(value), text)));
  select.onchange = () => act(select.value);
  if (options.length < 2) {
    select.parentElement.hidden = true;
    select.parentElement.style.display = "none";
  }
}

const twice = (names) => names.map((name) => [name, name]);

function setUp() {
  state = {
    measure: "suboptimality",
    group: firstGroup(),
    facet: data.facet ?? "",
    scale: "auto",
    method: "",
    axes: new Set(data.panels),
    hidden: new Set(),
    only: { ...data.focus },
  };
  if ($("panels")) {
    offerPanels();
    offerAxes();
  }
  const accuracies = data.accuracies.map((accuracy) => [String(accuracy), power(accuracy)]);
  const swept = twice([...new Set(data.scaling.map((series) => series.parameter))]);
  choices("accuracy", accuracies, data.shown, drawCosts);
  choices("baseline", twice(data.methods.map(({ name }) => name)), data.baseline, drawCosts);
  choices("scaling-parameter", swept, swept[0]?.[0], drawScaling);
  choices("scaling-cost", Object.entries(data.costs), "messages", drawScaling);
  choices("scaling-accuracy", accuracies, data.fitted, drawScaling);
}

// The method, or for a single one what else tells its curves apart.
function firstGroup() {
  const others = data.parameters.filter(({ name }) => name !== data.facet);
  const context = others.find(({ name }) => !isOfMethod(name)) ?? others[0];
  return data.methods.length > 1 || !context ? "method" : context.name;
}

function offerPanels() {
  const names = data.parameters.map(({ name }) => name);
  const short = data.parameters.filter(({ values }) => values.length <= 8).map(({ name }) => name);
  choices("measure", twice(Object.keys(data.measures)), state.measure, (value) => {
    state.measure = value;
    drawPanels();
  });
  choices("group", twice(["method", ...names]), state.group, (value) => {
    state.group = value;
    state.hidden.clear();
    regroup();
  });
  choices("facet", [["", "nothing"], ...twice(short)], state.facet, (value) => {
    state.facet = value;
    drawPanels();
  });
  $("scale").onchange = () => {
    state.scale = $("scale").value;
    drawPanels();
  };
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
