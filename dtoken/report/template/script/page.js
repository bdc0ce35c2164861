// The page as a whole: drawing all of it, light and dark, paper, narrow windows; and its start.

function regroup() {
  const isDrawn = (group) => data.cells.some((cell) => group.has(cell) && Object.keys(cell.curves).length);
  groups = groupsBy(state.group).filter(isDrawn);
  drawLegend();
  drawPanels();
}

function drawAll() {
  if ($("panels")) {
    regroup();
    drawCost();
  }
  drawRates();
  drawMap();
  drawScaling();
  drawMemory();
}

let chosenTheme = asked.get("theme");

function setTheme(theme) {
  applyTheme(theme);
  if (data) drawAll();
}

$("theme").onclick = () => {
  chosenTheme = isDark() ? "light" : "dark";
  setTheme(chosenTheme);
};
systemTheme.onchange = () => {
  if (!chosenTheme) setTheme();
};

// paper is white, and narrower than a screen
let printing = false;

function forPaper(on) {
  printing = on;
  document.body.classList.toggle("paper", on);
  setTheme(on ? "light" : chosenTheme);
}

window.onbeforeprint = () => forPaper(true);
window.onafterprint = () => forPaper(false);

const isNarrow = () => printing || window.innerWidth < 900;
let wasNarrow = isNarrow();

window.addEventListener("resize", () => {
  const narrow = isNarrow();
  if (data && $("panels") && narrow !== wasNarrow && !printing) drawPanels();
  wasNarrow = narrow;
});

async function start() {
  if (!$("packed-data")) return;
  const packed = ["packed-data", "packed-plotly"].map((id) => unpack(id).text());
  const [text, plotly] = await Promise.all(packed);
  document.head.append(make("script", { textContent: plotly }));
  data = JSON.parse(text);
  delete Plotly?.Plots?.sendDataToCloud;
  setUp();
  applyTheme(chosenTheme);
  drawAll();
  document.querySelectorAll("table[id]").forEach(equip);
  if (place) $(place)?.scrollIntoView({ behavior: "instant" });
  document.documentElement.dataset.ready = "true";
}

for (const link of document.querySelectorAll("a[data-packed]")) {
  link.onclick = (event) => {
    event.preventDefault();
    save(link);
  };
}

start();
