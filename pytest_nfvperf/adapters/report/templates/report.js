"use strict";
// What the page does beyond being read: charts to hover, zoom and filter; packed parts; a search over tests.
// It needs no network. Without it the page shows the drawn pictures.
(() => {
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const touch = window.matchMedia("(pointer: coarse)");
  const PACKED = "script[type='application/gzip']"; // as text of a script it is parsed fastest
  let library = null;

  async function unpacked(base64) {
    const bytes = Uint8Array.from(atob(base64.trim()), letter => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).text();
  }

  // plotly.js, once, when the first chart comes into sight: unpacked from this page, or a file of the site.
  function plotly() {
    const held = document.getElementById("plotly");
    library ??= held.dataset.src ? loaded({ src: held.dataset.src }) : unpacked(held.textContent).then(text => loaded({ text }));
    return library;
  }

  function loaded(given) {
    return new Promise((done, failed) => {
      const script = Object.assign(document.createElement("script"), given);
      script.onload = () => done(window.Plotly);
      script.onerror = () => failed(new Error(`cannot load ${given.src}`));
      document.head.append(script);
      if (given.text) done(window.Plotly);
    });
  }

  function colours() {
    const given = getComputedStyle(document.documentElement);
    const of = name => given.getPropertyValue(name).trim();
    return { ink: of("--ink"), soft: of("--soft"), line: of("--line"), paper: of("--paper") };
  }

  function axis(title, more, colour) {
    return {
      title: { text: title, standoff: 10, font: { size: 12 } }, color: colour.ink, gridcolor: colour.line,
      linecolor: colour.soft, zerolinecolor: colour.line, automargin: true, fixedrange: touch.matches, ...more,
    };
  }

  function layoutOf(panel) {
    const colour = colours();
    return {
      title: { text: `<b>${panel.title}</b>`, x: 0, xref: "paper", font: { size: 14 } }, font: { color: colour.ink, family: "inherit" },
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", showlegend: false, height: panel.height ?? 330,
      margin: { l: 50, r: 12, t: 40, b: 45 }, hovermode: "closest", dragmode: touch.matches ? false : "zoom",
      modebar: { bgcolor: "rgba(0,0,0,0)", color: colour.soft, activecolor: colour.ink },
      hoverlabel: { bgcolor: colour.paper, bordercolor: colour.soft, font: { color: colour.ink }, align: "left", namelength: -1 },
      xaxis: axis(panel.x, panel.xaxis, colour), yaxis: axis(panel.y, panel.yaxis, colour), shapes: panel.shapes,
    };
  }

  // A button a series, so that the keyboard reaches it and a phone has room for it.
  function legend(chart, panels, plots) {
    const list = document.createElement("div");
    list.className = "series";
    const traces = new Map();
    for (const trace of panels.flatMap(panel => panel.traces).filter(each => each.name)) {
      traces.set(trace.name, [...(traces.get(trace.name) ?? []), trace]);
    }
    for (const [name, alike] of traces) {
      const button = document.createElement("button");
      const lines = alike.find(trace => trace.line);
      const colour = (lines?.line ?? alike[0].marker).color;
      const symbols = [...new Set(alike.filter(trace => trace.marker).map(trace => trace.marker.symbol))];
      button.type = "button";
      button.setAttribute("aria-pressed", "true");
      button.title = "show or hide";
      button.append(sample(colour, symbols, lines?.line.dash), name);
      button.onclick = () => {
        const shown = button.getAttribute("aria-pressed") !== "true";
        button.setAttribute("aria-pressed", String(shown));
        plots.forEach((plot, at) => {
          const which = panels[at].traces.flatMap((each, index) => (each.name === name ? [index] : []));
          if (which.length) window.Plotly.restyle(plot, { visible: shown }, which);
        });
      };
      list.append(button);
    }
    for (const [name, key] of new Map(panels.flatMap(panel => panel.keys).map(each => [each.name, each]))) {
      const entry = document.createElement("span");
      if (key.symbol) entry.append(sample(key.colour, [key.symbol]));
      entry.append(name);
      list.append(entry);
    }
    return list;
  }

  const SHAPES = {
    circle: "M-4,0a4,4 0 1,0 8,0a4,4 0 1,0 -8,0", square: "M-4,-4h8v8h-8z", diamond: "M0,-5l5,5l-5,5l-5,-5z",
    "triangle-up": "M0,-5l5,9h-10z", "triangle-down": "M0,5l5,-9h-10z", "line-ew": "M-8,0h16", "line-ns": "M0,-5v10",
    cross: "M-1.6,-5h3.2v3.4h3.4v3.2h-3.4v3.4h-3.2v-3.4h-3.4v-3.2h3.4z", x: "M-4,-4l8,8m0,-8l-8,8", any: "M-9,-4h18v8h-18z",
  };
  // As it looks in the chart: its line, and its symbol. Several symbols have entries of their own: then only the colour.
  function sample(colour, symbols, dash) {
    const draw = (name, attributes) => {
      const made = document.createElementNS("http://www.w3.org/2000/svg", name);
      for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
      return made;
    };
    const mark = draw("svg", { viewBox: "-14 -6 28 12", width: 28, height: 12, "aria-hidden": "true", stroke: colour, "stroke-width": 2 });
    const dashes = { dash: "6 3", dot: "2 2" }[dash] ?? "none";
    if (dash) mark.append(draw("path", { d: "M-14,0h28", "stroke-dasharray": dashes }));
    const symbol = symbols.length > 1 && !dash ? "any" : symbols[0];
    const shape = symbol?.replace(/-open|-thin/g, "");
    if (shape) mark.append(draw("path", { d: SHAPES[shape], fill: symbol.endsWith("-open") || shape === "x" ? "none" : colour, "stroke-width": 1.5 }));
    return mark;
  }

  async function draw(chart) {
    const { panels } = JSON.parse(chart.dataset.chart);
    const library = await plotly();
    const live = document.createElement("div");
    live.className = panels.length > 1 ? "live panels" : "live";
    const plots = panels.map(() => document.createElement("div"));
    live.append(...plots);
    chart.prepend(live, legend(chart, panels, plots));
    chart.classList.add("drawn");
    const buttons = [["toImage", "zoomIn2d", "zoomOut2d", "resetScale2d"]];
    const options = { displaylogo: false, responsive: true, modeBarButtons: buttons, displayModeBar: touch.matches ? false : "hover" };
    for (const [at, plot] of plots.entries()) {
      await library.newPlot(plot, panels[at].traces, layoutOf(panels[at]), options);
      plot.on("plotly_click", event => {
        const trial = event.points[0].customdata;
        if (trial) location.hash = trial;
      });
    }
    chart.redraw = () => plots.forEach((plot, at) => library.relayout(plot, layoutOf(panels[at])));
  }

  const sight = new IntersectionObserver(entries => {
    for (const entry of entries.filter(each => each.isIntersecting)) {
      sight.unobserve(entry.target);
      draw(entry.target).catch(error => console.error("a chart cannot be drawn:", error));
    }
  }, { rootMargin: "400px" });
  const watch = part => part.querySelectorAll(".chart[data-chart]").forEach(chart => sight.observe(chart));

  // What a large run has of a test is packed until somebody opens it.
  async function unpack(details) {
    const part = details.querySelector(`:scope > .body > ${PACKED}`);
    if (!part) return;
    const body = part.parentElement;
    part.unpacking ??= unpacked(part.textContent).then(html => {
      body.innerHTML = html;
      watch(body);
    });
    await part.unpacking;
  }

  // A link leads into parts that are packed or folded, too.
  async function reveal() {
    const id = decodeURIComponent(location.hash.slice(1));
    if (!id) return;
    if (!document.getElementById(id)) {
      const holds = part => ` ${part.dataset.ids} `.includes(` ${id} `);
      const part = [...document.querySelectorAll(PACKED)].find(holds);
      if (part) await unpack(part.closest("details"));
    }
    const target = document.getElementById(id);
    if (!target) return;
    for (let at = target.closest("details"); at; at = at.parentElement.closest("details")) at.open = true;
    document.querySelectorAll(".aimed").forEach(each => each.classList.remove("aimed"));
    target.classList.add("aimed");
    target.scrollIntoView();
  }

  function find() {
    const words = document.getElementById("find").value.toLowerCase().split(/\s+/).filter(Boolean);
    const badge = document.getElementById("which").value;
    const rows = [...document.querySelectorAll("#tests tbody tr")];
    const wanted = row => (!badge || row.dataset.badge === badge) && words.every(word => row.textContent.toLowerCase().includes(word));
    for (const row of rows) row.hidden = !wanted(row);
    if (words.length || badge) rows[0]?.closest("details").setAttribute("open", "");
    document.getElementById("found").textContent = `${rows.filter(row => !row.hidden).length} of ${rows.length} tests`;
  }

  document.documentElement.classList.add("js");
  document.querySelectorAll("details.test").forEach(details => details.addEventListener("toggle", () => unpack(details)));
  document.querySelectorAll("#find, #which").forEach(field => field.addEventListener("input", find));
  if (document.getElementById("find")) find();
  if ("DecompressionStream" in window) watch(document);
  dark.addEventListener("change", () => document.querySelectorAll(".chart.drawn").forEach(chart => chart.redraw?.()));
  window.addEventListener("hashchange", reveal);
  reveal();
})();
