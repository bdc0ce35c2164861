// Colours and kinds of lines: of the theme, and of the groups that share them.

const isDark = () => document.documentElement.dataset.theme === "dark";
const tone = (pair) => pair[isDark() ? 1 : 0];
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const channels = (colour) => [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
const faint = (colour, alpha) => `rgba(${channels(colour)},${alpha})`;

// as plotly calls kinds of lines: how to say them, and how SVG draws them
const DASHES = {
  solid: { word: "solid", stroke: "" },
  dash: { word: "dashed", stroke: "6 4" },
  dot: { word: "dotted", stroke: "2 3" },
  dashdot: { word: "dash and dot", stroke: "6 3 2 3" },
  longdash: { word: "long dashes", stroke: "10 4" },
  longdashdot: { word: "long dash and dot", stroke: "10 3 2 3" },
};

function groupsBy(name) {
  if (name === "method") {
    return data.methods.map((method, at) => ({
      name: method.name,
      colour: method.colour,
      dash: () => method.dash,
      has: (cell) => cell.method === at,
    }));
  }
  const at = data.parameters.findIndex((parameter) => parameter.name === name);
  const { values, numeric, short } = data.parameters[at];
  const isOrdered = numeric && values.length > 2;
  return values.map((value, index) => ({
    name: valueTitle(short, value),
    colour: isOrdered ? shade(index / (values.length - 1)) : data.palette[index % data.palette.length],
    dash: methodDash,
    has: (cell) => cell.values[at] === value,
  }));
}

const valueTitle = (name, value) => (value === null ? `no ${name}` : `${name} = ${value}`);

// where colours tell values apart, lines tell methods apart
const methodDash = (cell) => data.dashes[shownMethods().indexOf(cell.method) % data.dashes.length];
const shownMethods = () => [...new Set(data.cells.filter(isShown).map((cell) => cell.method))];

// between the steps of the ordered palette, on light and on dark backgrounds
function shade(share) {
  const steps = data.ordered;
  const place = share * (steps.length - 1);
  const low = Math.min(Math.floor(place), steps.length - 2);
  return [0, 1].map((theme) => mix(steps[low][theme], steps[low + 1][theme], place - low));
}

function mix(from, to, part) {
  const ends = channels(to);
  const mixed = channels(from).map((start, at) => Math.round(start + (ends[at] - start) * part));
  return `#${mixed.map((channel) => channel.toString(16).padStart(2, "0")).join("")}`;
}
