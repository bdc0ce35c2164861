// What the reader chose is in the address of the page: who opens it there sees the same.

const asked = new URLSearchParams(location.hash.includes("=") ? location.hash.slice(1) : "");
const usual = {}; // what is chosen unless the reader chooses, by the id of the element
let place = asked.get("at"); // section that the reader went to

const list = (name) => (asked.get(name) ?? "").split("~").filter(Boolean);

function remember() {
  if (!state) return;
  const found = new URLSearchParams();
  const put = (name, value) => value && found.set(name, value);
  put("at", place);
  put("theme", chosenTheme);
  for (const [id, value] of Object.entries(usual)) if ($(id).value !== value) found.set(id, $(id).value);
  put("method", state.method);
  if ([...state.axes].sort().join() !== [...data.panels].sort().join()) found.set("axes", [...state.axes].join("~"));
  put("hide", [...state.hidden].join("~"));
  for (const { name, values } of data.parameters) {
    if (state.only[name] !== data.focus[name]) found.set(`only.${name}`, values.indexOf(state.only[name]));
  }
  for (const [axis, ends] of Object.entries(state.zoom))
    found.set(`zoom.${axis}`, ends.map((end) => digits(end, 4)).join("~"));
  for (const each of document.querySelectorAll("table[id]")) rememberTable(each, put);
  const text = found.toString();
  const whole = location.href.split("#")[0];
  history.replaceState(null, "", text ? `${whole}#${text}` : whole);
}

function recall() {
  state.method = asked.get("method") ?? "";
  if (asked.has("axes")) state.axes = new Set(list("axes").filter((axis) => axis in data.axes));
  state.hidden = new Set(list("hide"));
  for (const { name, values } of data.parameters) {
    if (asked.has(`only.${name}`)) state.only[name] = values[Number(asked.get(`only.${name}`))];
  }
  for (const axis of [...Object.keys(data.axes), "y"]) {
    const ends = list(`zoom.${axis}`).map(Number);
    if (ends.length === 2 && ends.every(Number.isFinite)) state.zoom[axis] = ends;
  }
}

// A section of the page keeps what was chosen.
function goTo(link) {
  place = link.getAttribute("href").slice(1);
  $(place).scrollIntoView();
}

for (const event of ["click", "change", "input"]) document.addEventListener(event, remember);
for (const link of document.querySelectorAll('a[href^="#"]')) {
  link.onclick = (event) => {
    event.preventDefault();
    goTo(link);
  };
}
window.onhashchange = () => location.hash.includes("=") && location.reload();
