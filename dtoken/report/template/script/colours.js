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
      sample: () => method.dash,
      has: (cell) => cell.method === at,
    }));
  }
  const at = data.parameters.findIndex((parameter) => parameter.name === name);
  const { values, titles, looks } = data.parameters[at];
  return values.map((value, index) => ({
    name: titles[index],
    colour: looks[index].colour,
    dash: (cell) => (shownMethods().length > 1 ? methodDash(cell) : looks[index].dash),
    sample: () => (shownMethods().length > 1 ? "solid" : looks[index].dash),
    has: (cell) => cell.values[at] === value,
  }));
}

// where colours tell values apart, lines tell methods apart, if there are several
const methodDash = (cell) => data.dashes[shownMethods().indexOf(cell.method) % data.dashes.length];
const shownMethods = () => [...new Set(data.cells.filter(isShown).map((cell) => cell.method))];
