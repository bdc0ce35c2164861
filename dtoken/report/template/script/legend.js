// The legend of the panels: hides groups, and brings them out.

function drawLegend() {
  $("legend").replaceChildren(...groups.map(legendButton));
}

function legendButton(group) {
  const button = make("button", { type: "button" }, group.name);
  button.insertAdjacentHTML("afterbegin", sample(group));
  const press = () => button.setAttribute("aria-pressed", !state.hidden.has(group.name));
  press();
  button.onclick = () => {
    toggle(group.name);
    press();
  };
  button.onmouseenter = () => highlight(group.name);
  button.onmouseleave = () => highlight(null);
  return button;
}

function sample(group) {
  const { stroke } = DASHES[group.sample()];
  const look = `stroke="${tone(group.colour)}" stroke-width="3" stroke-dasharray="${stroke}"`;
  return `<svg viewBox="0 0 28 8"><line x1="0" x2="28" y1="4" y2="4" ${look}/></svg>`;
}

function highlight(name) {
  groups.forEach((group, index) => {
    const kinds = ["line", "band"].map((kind) => `trace${kind}${index}`);
    const mine = kinds.map((kind) => `.panel .${kind}, .panel [class*="${kind}_"]`).join();
    for (const trace of document.querySelectorAll(mine)) {
      trace.style.opacity = name === null || group.name === name ? "" : "0.13";
    }
  });
}

function toggle(name) {
  if (!state.hidden.delete(name)) state.hidden.add(name);
  for (const panel of document.querySelectorAll(".panel")) {
    const indices = [...panel.data.keys()].filter((at) => panel.data[at].meta === name);
    if (indices.length) Plotly.restyle(panel, { visible: !state.hidden.has(name) }, indices);
  }
}
