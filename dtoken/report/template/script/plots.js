// What all plots have in common: axes, fonts and margins.

// The buttons are named one by one: plotly's own choice has one that uploads the chart.
const config = (home) => ({
  displaylogo: false,
  responsive: true,
  doubleClick: "autosize",
  showSendToCloud: false,
  plotlyServerURL: "",
  modeBarButtons: [
    [
      { name: "download", title: "Download this picture (SVG)", icon: Plotly.Icons.camera, click: download },
      "zoom2d",
      "pan2d",
      home,
    ],
  ],
});

// Draws a plot. The words name the picture when it is downloaded; it is laid out as when it stands alone.
function show(element, traces, layout, words, alone = {}, home = "resetScale2d") {
  element.picture = { words, alone };
  return Plotly.newPlot(element, traces, layout, config(home));
}

function download(plot) {
  const { words, alone } = plot.picture;
  const layout = {
    ...plot.layout,
    ...alone,
    paper_bgcolor: css("--paper"),
    showlegend: plot.data.length > 1,
    legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom" },
    margin: { l: 64, r: 16, t: alone.title?.text ? 76 : 44, b: 52 }, // a title stands above the legend
  };
  const filename = [$("title").textContent, ...words].filter(Boolean).map(fileName).join("-");
  return Plotly.downloadImage({ data: plot.data, layout }, { format: "svg", filename, width: 720, height: 480 });
}

const pictureTitle = (text) => ({ text, font: { size: 13 }, x: 0.02, y: 0.97, yanchor: "top" });

const fileName = (text) => text.replace(/[^A-Za-z0-9]+/g, "-").replace(/^-|-$/g, "");

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
    margin: { l: 56, r: 10, t: 34, b: 44 }, // above, the buttons cover no curve
    hovermode: "closest",
    modebar: { bgcolor: "rgba(0,0,0,0)", color: css("--soft"), activecolor: css("--accent") },
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
  return ticksAt(tickvals);
}

// Of a logarithmic axis for a setting, label its values where they have room.
function atValues(values) {
  const places = [...new Set(values)].sort((one, other) => one - other);
  const logs = places.map(Math.log10);
  const steps = logs.slice(1).map((log, at) => log - logs[at]);
  const haveRoom = steps.length > 0 && places.length <= 8 && Math.min(...steps) * 16 >= logs.at(-1) - logs[0];
  return haveRoom ? ticksAt(places) : sparse(values);
}

function ticksAt(tickvals) {
  return {
    tickmode: "array",
    tickvals,
    ticktext: tickvals.map((value) => number(value).replace(".0e", "e")),
    tickangle: 0,
    tickfont: { size: 11, color: css("--soft") },
  };
}
