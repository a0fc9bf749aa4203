"""Style and script of the page. No font, image or script comes from anywhere else."""

STYLE = """
:root { color-scheme: light dark;
  --ground: #fbfbfa; --card: #ffffff; --ink: #1c2430; --soft: #5b6675; --line: #e3e6ea; --accent: #0d9488;
  --good: #047857; --warn: #b45309; --bad: #b91c1c; --code: #f3f4f6; }
@media (prefers-color-scheme: dark) { :root {
  --ground: #12161c; --card: #1a2028; --ink: #e6e9ee; --soft: #9aa6b5; --line: #2c3541; --accent: #2dd4bf;
  --good: #34d399; --warn: #fbbf24; --bad: #f87171; --code: #232b35; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink); line-height: 1.5;
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif;
  font-variant-numeric: tabular-nums; }
main { max-width: 1080px; margin: 0 auto; padding: 32px 24px 64px; }
h1 { font-size: 28px; line-height: 1.2; margin: 0 0 4px; letter-spacing: -0.01em; overflow-wrap: anywhere; }
h2 { font-size: 18px; margin: 40px 0 8px; }
h3 { font-size: 14px; margin: 16px 0 4px; }
p { margin: 6px 0; max-width: 78ch; }
.soft { color: var(--soft); }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 10px;
  padding: 16px 20px; margin: 12px 0; }
.tiles { display: flex; flex-wrap: wrap; gap: 12px; margin: 20px 0; }
.tile { flex: 1 1 110px; background: var(--card); border: 1px solid var(--line); border-radius: 10px;
  padding: 10px 16px; }
.tile b { display: block; font-size: 22px; font-weight: 600; }
.tile span { color: var(--soft); font-size: 13px; }
.numbers { display: grid; grid-template-columns: 1fr 1fr; gap: 20px; }
.numbers b { font-size: 24px; font-weight: 600; display: block; }
@media (max-width: 640px) { .numbers { grid-template-columns: 1fr; } }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 13.5px; }
th { text-align: left; font-weight: 500; color: var(--soft); white-space: nowrap; }
th, td { padding: 6px 10px; border-bottom: 1px solid var(--line); vertical-align: top; }
td.n, th.n { text-align: right; white-space: nowrap; }
td.words { white-space: nowrap; }
tr > td:first-child:not([colspan]) { white-space: nowrap; }
tr:last-child > td { border-bottom: 0; }
button.key { font: inherit; color: var(--accent); background: none; border: 0; padding: 0; cursor: pointer;
  white-space: nowrap; }
button.key::before { content: "\\25B8"; display: inline-block; width: 1.1em; }
button.key[aria-expanded=true]::before { content: "\\25BE"; }
.badge { display: inline-block; border: 1px solid currentColor; border-radius: 99px; padding: 0 9px; font-size: 12px;
  white-space: nowrap; }
.proved { color: var(--good); } .refuted { color: var(--bad); }
.proved-under-assumptions, .asymptotic, .average-case, .membership-only, .asserted { color: var(--warn); }
.not-covered, .heading { color: var(--bad); } .heading { font-weight: 600; }
.star { color: var(--accent); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 3px 16px; margin: 6px 0; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
ul { margin: 6px 0; padding-left: 20px; } li { margin: 4px 0; max-width: 78ch; }
pre { background: var(--code); border-radius: 6px; padding: 10px 12px; overflow: auto; max-height: 260px;
  font: 12px/1.45 ui-monospace, SFMono-Regular, Menlo, monospace; margin: 6px 0; }
code { background: var(--code); border-radius: 4px; padding: 1px 4px;
  font: 0.92em ui-monospace, SFMono-Regular, Menlo, monospace; }
.chart { width: 100%; }
@media print {
  :root { color-scheme: light; --ground: #fff; --card: #fff; --ink: #000; --soft: #444; --line: #ccc; --accent: #0d9488;
    --good: #047857; --warn: #92400e; --bad: #b91c1c; --code: #f6f6f6; }
  main { max-width: none; padding: 0; } .card, .tile, tr { break-inside: avoid; } button.key::before { content: ""; }
  h2, h3, h2 + p { break-after: avoid; }
  /* Paper does not scroll: the table may break between rows, and its columns share the width. */
  .card.scroll { break-inside: auto; overflow: visible; padding: 8px; }
  .scroll table { font-size: 9.5px; } .scroll .badge { font-size: 8.5px; padding: 0 4px; white-space: normal; }
  .scroll th, .scroll td { padding: 3px 4px; white-space: normal; overflow-wrap: anywhere; }
  .scroll td:first-child:not([colspan]) { white-space: nowrap; } pre { max-height: none; white-space: pre-wrap; }
}
"""

SCRIPT = """
const figures = JSON.parse(document.getElementById("figures").textContent);
function colours() {
  const style = getComputedStyle(document.documentElement);
  const read = (name) => style.getPropertyValue(name).trim();
  return { ink: read("--ink"), soft: read("--soft"), line: read("--line"), card: read("--card") };
}
function layout(figure) {
  const c = colours();
  const font = { family: getComputedStyle(document.body).fontFamily, size: 13, color: c.ink };
  const axis = { gridcolor: c.line, zerolinecolor: c.line, linecolor: c.line, tickcolor: c.line };
  const own = figure.layout;
  return Object.assign(
    { margin: { l: 64, r: 16, t: 16, b: 56 }, hovermode: "closest",
      legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0 } },
    own, { font: font, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", autosize: true,
      hoverlabel: { bgcolor: c.card, bordercolor: c.soft, font: { color: c.ink }, align: "left" },
      xaxis: Object.assign({}, axis, own.xaxis), yaxis: Object.assign({}, axis, own.yaxis) });
}
function draw(width) {
  const size = width ? { width: width, autosize: false } : {};
  const options = { responsive: true, displaylogo: false, displayModeBar: false };
  for (const [id, figure] of Object.entries(figures))
    Plotly.react(id, figure.data, Object.assign(layout(figure), size), options);
}
draw();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => draw());
for (const button of document.querySelectorAll("button.key"))
  button.addEventListener("click", () => {
    const row = document.getElementById(button.getAttribute("aria-controls"));
    row.hidden = !row.hidden;
    button.setAttribute("aria-expanded", String(!row.hidden));
  });
// A page of paper has its own width, which nothing measures before it is printed: A4 and Letter have room for this.
addEventListener("beforeprint", () => draw(640));
addEventListener("afterprint", () => draw());
"""
