// Parameters that neither colour nor panels tell apart can be held at one value.

function isShown(cell) {
  const isOtherMethod = state.method !== "" && data.methods[cell.method].name !== state.method;
  if (state.group !== "method" && isOtherMethod) return false;
  return data.parameters.every(
    ({ name }, at) => !isFree(name) || state.only[name] === undefined || cell.values[at] === state.only[name],
  );
}

const isFree = (name) => !isOfMethod(name) && name !== state.facet && name !== state.group;

function drawFilters() {
  const methods = state.group !== "method" && data.methods.length > 1 ? [methodFilter()] : [];
  const free = data.parameters.filter(({ name }) => isFree(name));
  $("filters").replaceChildren(...methods, ...free.map(parameterFilter));
}

function methodFilter() {
  const options = ["", ...data.methods.map(({ name }) => name)];
  const selected = (value) => ({ value, selected: value === state.method });
  const select = make("select", {}, ...options.map((value) => make("option", selected(value), value || "all")));
  select.dataset.parameter = "method";
  select.onchange = () => {
    state.method = select.value;
    drawPanels();
  };
  return make("label", {}, "method", select);
}

function parameterFilter({ name, short, values }) {
  const options = [["all", undefined], ...values.map((value) => [value ?? "none", value])];
  const selected = (value) => ({ selected: value === state.only[name] });
  const select = make("select", {}, ...options.map(([text, value]) => make("option", selected(value), text)));
  select.dataset.parameter = name;
  select.onchange = () => {
    state.only[name] = options[select.selectedIndex][1];
    drawPanels();
  };
  return make("label", {}, short, select);
}
