// Light or dark: as the system has it, until the reader chooses. In the head, so that nothing flashes.
const systemTheme = matchMedia("(prefers-color-scheme: dark)");
function applyTheme(chosen) {
  document.documentElement.dataset.theme = chosen || (systemTheme.matches ? "dark" : "light");
}
applyTheme();
