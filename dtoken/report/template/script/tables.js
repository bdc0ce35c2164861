// Tables that are sorted by a click on a heading, what is missing last.

// Columns: {title, word?, text?, value(row), show(row)}; what the word means is told when the heading is pointed at.
function table(element, columns, rows, sorted = { column: -1, down: false }) {
  const order = sorted.column < 0 ? rows : [...rows].sort(comparison(columns[sorted.column].value, sorted.down));
  const sort = (wanted) => table(element, columns, rows, wanted);
  element.tHead.replaceChildren(make("tr", {}, ...columns.map((column, at) => heading(column, at, sorted, sort))));
  element.tBodies[0].replaceChildren(
    ...order.map((row) => make("tr", {}, ...columns.map((column) => entry(column, row)))),
  );
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

// As the reader sorted the table before it was made anew.
function presentOrder(element) {
  const heads = [...element.tHead.querySelectorAll("th")];
  const column = heads.findIndex((head) => head.hasAttribute("aria-sort"));
  return { column, down: column >= 0 && heads[column].getAttribute("aria-sort") === "descending" };
}

// The colour of a method beside a text.
function dotted(method, text) {
  const dot = make("span", { className: "dot" });
  dot.style.background = tone(data.methods[method].colour);
  return [dot, text];
}
