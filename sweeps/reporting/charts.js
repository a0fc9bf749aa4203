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
