"use strict";
// Draws the charts of a page, each when it comes near, with the Vega of this page or of the site around it.
async function unpacked(base64) {
  const bytes = Uint8Array.from(atob(base64.trim()), letter => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}

const charts = (() => {
  let loading = null, unpacking = null;

  function run(given) {
    return new Promise((done, failed) => {
      const script = Object.assign(document.createElement("script"), given);
      script.onload = () => done();
      script.onerror = () => failed(new Error(`cannot load ${given.src}`));
      document.head.append(script);
      if (given.text) done();
    });
  }

  function vega() {
    const held = document.getElementById("vega");
    loading ??= held.dataset.src ? run({ src: held.dataset.src }) : unpacked(held.textContent).then(text => run({ text }));
    return loading;
  }

  function data() {
    unpacking ??= unpacked(document.getElementById("charts").textContent).then(JSON.parse);
    return unpacking;
  }

  // The keyboard reaches the entries of a legend, as the pointer does.
  function reachable(place) {
    for (const entry of place.querySelectorAll(".role-legend-label text")) {
      Object.assign(entry, { tabIndex: 0, onkeydown: event => {
        if (event.key !== "Enter" && event.key !== " ") return;
        entry.dispatchEvent(new MouseEvent("click", { bubbles: true, shiftKey: event.shiftKey }));
        event.preventDefault();
      } });
      entry.setAttribute("role", "button");
    }
  }

  async function draw(chart) {
    const panels = (await data())[chart.dataset.chart];
    if (chart.firstElementChild) return;
    const config = JSON.parse(document.getElementById("vega").dataset.theme);
    const places = panels.map(() => document.createElement("div"));
    if (panels.length > 1) chart.classList.add("panels");
    chart.append(...places);
    await vega();
    const options = { actions: false, renderer: "svg", config, tooltip: { disableDefaultStyle: true } };
    for (const [at, place] of places.entries()) {
      await window.vegaEmbed(place, { ...panels[at], width: "container" }, options);
      reachable(place);
    }
  }

  const failed = error => console.error("a chart cannot be drawn:", error);
  const sight = new IntersectionObserver(entries => {
    for (const entry of entries.filter(each => each.isIntersecting)) {
      sight.unobserve(entry.target);
      draw(entry.target).catch(failed);
    }
  }, { rootMargin: "400px" });
  const of = part => [...part.querySelectorAll(".chart[data-chart]")];
  const watch = part => of(part).forEach(chart => sight.observe(chart));
  document.addEventListener("DOMContentLoaded", () => {
    watch(document);
    if (document.getElementById("vega")) window.setTimeout(() => Promise.all([data(), vega()]).catch(failed), 200); // printing finds both there
  });
  window.addEventListener("beforeprint", () => of(document).filter(chart => chart.checkVisibility()).forEach(chart => draw(chart).catch(failed)));
  return { watch };
})();
