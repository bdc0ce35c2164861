// What is shared by all parts of the page: elements, and the data that Python packed into it.

let data; // as payload.py in Python made it
let state; // what the reader chose
let groups = []; // what shares a colour

const $ = (id) => document.getElementById(id);

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name in element && name !== "list") element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

function unpack(id) {
  const bytes = Uint8Array.from(atob($(id).textContent), (letter) => letter.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip")));
}

// What the page links to is in it: figures, and the table of all runs.
async function save(link) {
  const content = await unpack(link.dataset.packed).blob();
  const address = URL.createObjectURL(content);
  make("a", { href: address, download: link.getAttribute("href") }).click();
  URL.revokeObjectURL(address);
}

const isRepeated = () => data.cells.some((cell) => cell.runs > 1);
const isOfMethod = (parameter) => /^algorithm(\.|$)/.test(parameter);
