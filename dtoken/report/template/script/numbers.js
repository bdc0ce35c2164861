// Numbers in words.

const UNITS = [
  [1e12, 1e12, " T"],
  [1e9, 1e9, " G"],
  [1e6, 1e6, " M"],
  [1e5, 1e3, " k"],
]; // from where on, divided by what, called what

const digits = (value, count) => `${parseFloat(value.toPrecision(count))}`;

function number(value) {
  if (value === null || value === undefined) return "–";
  const rounded = parseFloat(value.toPrecision(3));
  const size = Math.abs(rounded);
  for (const [limit, divisor, unit] of UNITS) {
    if (size >= limit) return digits(rounded / divisor, 3) + unit;
  }
  if (size >= 1000) return Math.round(value).toLocaleString("en");
  if (size !== 0 && size < 1e-3) return value.toExponential(1);
  return digits(value, 3);
}

const power = (value) => value.toExponential().replace(/\.0+e/, "e").replace("e+0", "");
