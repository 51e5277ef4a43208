"use strict";
// What the page does beyond being read: packed parts, links into folded ones, a search over tests.
(() => {
  const PACKED = "script[type='application/gzip']"; // as text of a script it is parsed fastest

  // What a large run has of a test is packed until somebody opens it.
  async function unpack(details) {
    const part = details.querySelector(`:scope > .body > ${PACKED}`);
    if (!part) return;
    const body = part.parentElement;
    part.unpacking ??= unpacked(part.textContent).then(html => {
      body.innerHTML = html;
      charts.watch(body);
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
  window.addEventListener("hashchange", reveal);
  reveal();
})();
