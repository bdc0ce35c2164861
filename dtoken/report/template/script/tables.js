// Tables: sorted by a click on a heading, what is missing last; rows can be searched, columns chosen.

// Columns: {title, word?, text?, value(row), show(row)}; what the word means is told when the heading is pointed at.
function table(element, columns, rows, sorted = presentOrder(element, columns)) {
  const order = sorted.column < 0 ? rows : [...rows].sort(comparison(columns[sorted.column].value, sorted.down));
  const sort = (wanted) => table(element, columns, rows, wanted);
  element.tHead.replaceChildren(make("tr", {}, ...columns.map((column, at) => heading(column, at, sorted, sort))));
  element.tBodies[0].replaceChildren(
    ...order.map((row) => make("tr", {}, ...columns.map((column) => entry(column, row)))),
  );
  sift(element);
}

const titles = (element) => [...element.tHead.querySelectorAll("th")].map((head) => head.textContent.trim());

const FEW_ROWS = 6; // that need no search

// Above a table: a box that finds rows by words, and which columns are shown.
function equip(element) {
  if (element.tBodies[0].rows.length < FEW_ROWS) return;
  const [id, left] = [element.id, new Set(list(`leave.${element.id}`))];
  const box = make("input", { type: "search", placeholder: "find rows", value: asked.get(`find.${id}`) ?? "" });
  box.setAttribute("aria-label", "find rows");
  box.oninput = () => sift(element);
  const boxes = titles(element).map((title) => {
    const check = make("input", { type: "checkbox", checked: !left.has(title), value: title });
    check.onchange = () => sift(element);
    return make("label", {}, check, title);
  });
  const columns = make(
    "details",
    { className: "columns" },
    make("summary", {}, "Columns"),
    make("fieldset", {}, ...boxes),
  );
  element.tools = { box, columns };
  const [frame, scroll] = [make("div", { className: "table" }), element.closest(".scroll")];
  scroll.replaceWith(frame);
  frame.append(make("div", { className: "controls tools" }, box, columns), scroll);
  sift(element);
}

function sift(element) {
  if (!element.tools) return;
  const words = element.tools.box.value.toLowerCase().split(/\s+/);
  const left = leftOut(element);
  const shown = titles(element).map((title) => !left.includes(title));
  for (const row of element.rows) [...row.cells].forEach((cell, at) => (cell.hidden = !shown[at]));
  for (const row of element.tBodies[0].rows) {
    row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word));
  }
}

const leftOut = (element) =>
  [...element.tools.columns.querySelectorAll("input")].filter((check) => !check.checked).map((check) => check.value);

function rememberTable(element, put) {
  if (!element.tools) return;
  const { column, down } = presentOrder(element);
  put(`find.${element.id}`, element.tools.box.value);
  put(`leave.${element.id}`, leftOut(element).join("~"));
  if (column >= 0) put(`sort.${element.id}`, `${titles(element)[column]}~${down ? "down" : "up"}`);
}

function comparison(value, down) {
  const sign = down ? -1 : 1;
  return (one, other) => {
    const [a, b] = [value(one), value(other)];
    if (a === null || b === null) return (a === null) - (b === null);
    return sign * (typeof a === "string" ? a.localeCompare(b, "en", { numeric: true }) : a - b);
  };
}

function heading(column, at, sorted, sort) {
  const down = sorted.column === at && !sorted.down;
  const button = make("button", { type: "button", onclick: () => sort({ column: at, down }) }, column.title);
  const head = make("th", { className: column.text ? "text" : "", scope: "col" }, button);
  const meaning = data.words[column.word ?? column.title];
  if (meaning) head.title = meaning;
  if (sorted.column === at) head.setAttribute("aria-sort", sorted.down ? "descending" : "ascending");
  return head;
}

function entry(column, row) {
  const shown = column.show(row);
  return make("td", { className: column.text ? "text" : "" }, ...(Array.isArray(shown) ? shown : [shown]));
}

// As the reader sorted the table before it was made anew, or as the address says.
function presentOrder(element, columns = []) {
  const heads = [...element.tHead.querySelectorAll("th")];
  if (!heads.length) {
    const [title, way] = list(`sort.${element.id}`);
    return { column: columns.findIndex((column) => column.title === title), down: way === "down" };
  }
  const column = heads.findIndex((head) => head.hasAttribute("aria-sort"));
  return { column, down: column >= 0 && heads[column].getAttribute("aria-sort") === "descending" };
}

// The colour of a method beside a text.
function dotted(method, text) {
  const dot = make("span", { className: "dot" });
  dot.style.background = tone(data.methods[method].colour);
  return [dot, text];
}
