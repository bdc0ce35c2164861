// What all plots have in common: axes, fonts and margins.

const CONFIG = {
  displaylogo: false,
  responsive: true,
  modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"],
  toImageButtonOptions: { format: "svg" },
};

const font = () => ({ family: getComputedStyle(document.body).fontFamily, size: 12, color: css("--ink") });

function axisLayout(title, log, extra = {}) {
  return {
    title: { text: title, standoff: 8, font: { size: 12 } },
    type: log ? "log" : "linear",
    gridcolor: css("--grid"),
    linecolor: css("--line"),
    zeroline: false,
    exponentformat: log ? "power" : "SI",
    tickfont: { size: log ? 9 : 11, color: css("--soft") }, // plotly enlarges powers
    automargin: true,
    nticks: 6,
    ...extra,
  };
}

function baseLayout(more) {
  return {
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: font(),
    showlegend: false,
    margin: { l: 56, r: 10, t: 10, b: 44 },
    hovermode: "closest",
    hoverlabel: {
      bgcolor: css("--paper"),
      bordercolor: css("--line"),
      font: { color: css("--ink"), size: 12 },
      align: "left",
    },
    ...more,
  };
}

// Of a logarithmic axis over one or two decades, label 1, 2 and 5, or fewer where they crowd; over more, every so many
// powers of ten.
function sparse(values) {
  const known = values.filter((value) => value > 0);
  const [from, to] = [Math.min(...known), Math.max(...known)].map(Math.log10);
  const decades = to - from;
  if (!(decades < 2.5)) return { dtick: Math.ceil(decades / 6) };
  const powers = Array.from({ length: Math.ceil(decades) + 3 }, (_, at) => Math.floor(from) - 1 + at);
  const places = (leading) => powers.flatMap((exponent) => leading.map((digit) => Number(`${digit}e${exponent}`)));
  const isInside = (place) => place >= 10 ** from && place <= 10 ** to;
  const few = (leading) => places(leading).filter(isInside).length <= 5;
  const tickvals = places(
    [
      [1, 2, 5],
      [1, 3],
    ].find(few) ?? [1],
  );
  return {
    tickmode: "array",
    tickvals,
    ticktext: tickvals.map(number),
    tickangle: 0,
    tickfont: { size: 11, color: css("--soft") },
  };
}
