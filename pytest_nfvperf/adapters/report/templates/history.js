"use strict";
// Sorts and filters the tables of a history, and draws the series that somebody opens. No library, no network.
(() => {
  const { runs, series } = JSON.parse(document.getElementById("data").textContent);
  const field = id => document.getElementById(id);
  const rowsOf = table => [...(table?.tBodies[0].rows ?? [])].filter(row => !row.classList.contains("plot"));
  const causes = field("causes"), all = field("all");

  function part(parent, name, attributes, text) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    parent.append(made);
    return made;
  }

  // Filters and order.

  function show() {
    const words = field("find").value.toLowerCase().split(/\s+/).filter(Boolean);
    const suite = field("suite").value, metric = field("metric").value;
    const fits = row => {
      const { suites, metrics } = row.dataset;
      const text = row.textContent.toLowerCase();
      return (!suite || suites.split(" ").includes(suite)) && (!metric || metrics.split(" ").includes(metric)) && words.every(word => text.includes(word));
    };
    const counts = [causes, all].map(table => {
      const rows = rowsOf(table);
      rows.forEach(row => { row.hidden = !fits(row); if (chartOf(row)) chartOf(row).hidden = row.hidden; });
      return `${rows.filter(row => !row.hidden).length} of ${rows.length}`;
    });
    field("found").textContent = `${causes ? `${counts[0]} changes, ` : ""}${counts[1]} series`;
  }

  function sort(table, key, direction) {
    const sign = direction === "descending" ? -1 : 1;
    const rows = rowsOf(table).sort((one, other) => sign * (Number(one.dataset[key]) - Number(other.dataset[key])));
    table.tBodies[0].append(...rows.flatMap(row => [row, chartOf(row)].filter(Boolean)));
    for (const head of table.tHead.querySelectorAll("th[data-key]")) {
      if (head.dataset.key === key) head.setAttribute("aria-sort", direction);
      else head.removeAttribute("aria-sort");
    }
    if (table === causes) field("order").value = key;
  }

  function sortable(table) {
    for (const head of table?.tHead.querySelectorAll("th[data-key]") ?? []) {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.onclick = () => {
        const turned = { ascending: "descending", descending: "ascending" }[head.getAttribute("aria-sort")];
        sort(table, head.dataset.key, turned ?? head.dataset.first);
      };
    }
  }

  // Charts.

  const chartOf = row => (row.nextElementSibling?.classList.contains("plot") ? row.nextElementSibling : null);

  function toggle(row, open) {
    row.querySelector("button.open").setAttribute("aria-expanded", String(open));
    if (!open) return chartOf(row)?.remove();
    if (chartOf(row)) return;
    const chart = document.createElement("tr");
    chart.className = "plot";
    const cell = chart.insertCell();
    cell.colSpan = row.cells.length;
    row.after(chart);
    draw(cell, series[Number(row.id.slice(2))]);
  }

  function draw(cell, one) {
    const width = Math.max(300, cell.clientWidth), height = 240, left = 84, right = 14, top = 22, bottom = 30;
    const svg = part(cell, "svg", { viewBox: `0 0 ${width} ${height}`, role: "img", tabindex: 0, "aria-label": one.name });
    const last = Math.max(1, one.run.length - 1);
    const x = at => left + (width - left - right) * (one.run.length > 1 ? at / last : 0.5);
    const y = value => top + (height - top - bottom) * (1 - (value - one.reach[0]) / (one.reach[1] - one.reach[0]));
    const line = (x1, y1, x2, y2, name) => part(svg, "line", { x1, y1, x2, y2, class: name });
    for (const [value, text] of one.ticks) {
      line(left, y(value), width - right, y(value), "axis");
      part(svg, "text", { x: left - 10, y: y(value) + 4, "text-anchor": "end" }, text);
    }
    const dates = Math.max(1, Math.ceil(one.run.length / Math.max(2, Math.floor((width - left) / 110))));
    one.run.forEach((run, at) => {
      const atEnd = x(at) + 36 > width; // half a date goes beyond it
      if (at % dates === 0) part(svg, "text", { x: atEnd ? width : x(at), y: height - 6, "text-anchor": atEnd ? "end" : "middle" }, runs[run][1].slice(0, 10));
      if (at && runs[run][2] !== runs[one.run[at - 1]][2]) part(svg, "path", { d: `M${x(at - 0.5) - 4} ${height - bottom + 6}h8l-4 -7z`, class: "version" });
    });
    for (const [start, end, value] of one.levels) line(x(start - 0.3), y(value), x(end - 0.7), y(value), "level");
    for (const [at, text, name] of one.changes) {
      line(x(at - 0.5), top, x(at - 0.5), height - bottom, `rule ${name}`);
      const late = at > 0.8 * last;
      part(svg, "text", { x: x(at - 0.5) + (late ? -4 : 4), y: top - 6, "text-anchor": late ? "end" : "start" }, text);
    }
    one.value.forEach((value, at) => {
      const [low, high] = one.range?.[at] ?? [];
      if (low !== undefined) line(x(at), y(low), x(at), y(high), "range");
      const name = one.disturbed.includes(at) ? "point disturbed" : one.bound?.[at] ? "point bound" : "point";
      part(svg, "circle", { cx: x(at), cy: y(value), r: one.run.length > 40 ? 3 : 4, class: name });
    });
    pointed(cell, svg, one, x, width, top, height - bottom);
  }

  // Tells of the run that is pointed at, by mouse, finger or arrow keys.
  function pointed(cell, svg, one, x, width, top, bottom) {
    const tip = document.createElement("p");
    tip.className = "tip small";
    cell.append(tip);
    const here = part(svg, "line", { x1: -9, x2: -9, y1: top, y2: bottom, class: "here" });
    let at = one.run.length - 1;
    function tell(place) {
      at = Math.min(one.run.length - 1, Math.max(0, place));
      const [id, when, versions] = runs[one.run[at]];
      here.setAttribute("x1", x(at));
      here.setAttribute("x2", x(at));
      tip.textContent = `${when}, run ${id}: ${one.text[at]}${one.disturbed.includes(at) ? " (disturbed rig)" : ""}; ${versions}`;
    }
    const follow = event => {
      const box = svg.getBoundingClientRect();
      const wide = x(1) - x(0) || 1;
      tell(Math.round(((event.clientX - box.left) * width / box.width - x(0)) / wide));
    };
    svg.onpointermove = follow;
    svg.onpointerdown = follow;
    svg.onkeydown = event => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (step) { tell(at + step); event.preventDefault(); }
    };
    tell(at);
  }

  function aim() {
    const row = document.getElementById(location.hash.slice(1));
    if (!row?.querySelector("button.open")) return;
    if (row.hidden) { ["suite", "metric", "find"].forEach(id => { field(id).value = ""; }); show(); }
    toggle(row, true);
    row.scrollIntoView({ block: "center" });
  }

  document.documentElement.classList.add("js");
  [causes, all].forEach(sortable);
  for (const id of ["suite", "metric", "find"]) field(id).addEventListener("input", show);
  field("order").addEventListener("input", () => causes && sort(causes, field("order").value, "descending"));
  all.addEventListener("click", event => {
    const button = event.target.closest("button.open");
    if (button) toggle(button.closest("tr"), button.getAttribute("aria-expanded") !== "true");
  });
  window.addEventListener("hashchange", aim);
  show();
  aim();
})();
