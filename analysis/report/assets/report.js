// Makes tables sortable: a button in every heading, and the keys of its cells; keeps what a reader
// chose in the address, so that a link shows the same. Everything else works without this script.
"use strict";
(function () {
  const chosen = new URLSearchParams(location.hash.slice(1));
  function keep(name, value) {
    chosen.set(name, value);
    history.replaceState(null, "", "#" + chosen);
  }

  function compare(first, second, sign) {
    if (first === second) return 0;
    if (first === "") return 1;
    if (second === "") return -1;
    const a = Number(first), b = Number(second);
    if (!Number.isNaN(a) && !Number.isNaN(b)) return sign * (a - b);
    return sign * first.localeCompare(second, "en", { numeric: true });
  }

  function sort(table, heading, place, descending) {
    const body = table.tBodies[0];
    const rows = Array.from(body.rows);
    const key = (row) => row.cells[place].dataset.key;
    rows.sort((a, b) => compare(key(a), key(b), descending ? -1 : 1));
    body.append(...rows);
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", descending ? "descending" : "ascending");
  }

  function choose(input) {
    if (chosen.get(input.name) === input.id) input.checked = true;
    input.addEventListener("change", () => keep(input.name, input.id));
  }

  function makeSortable(table) {
    if (table.tHead.querySelector("button")) return;
    Array.from(table.tHead.rows[0].cells).forEach((heading, place) => {
      const button = document.createElement("button");
      button.type = "button";
      button.title = "Sort by this column";
      button.append(...heading.childNodes);
      heading.append(button);
      button.addEventListener("click", () => {
        const descending = heading.getAttribute("aria-sort") === "ascending";
        sort(table, heading, place, descending);
        keep(table.id, descending ? -place - 1 : place + 1);
      });
    });
    // Columns count from 1; a minus stands for descending.
    const number = Number(chosen.get(table.id));
    const heading = table.tHead.rows[0].cells[Math.abs(number) - 1];
    if (heading) sort(table, heading, Math.abs(number) - 1, number < 0);
  }

  function prepare(part) {
    part.querySelectorAll(".choice input").forEach(choose);
    part.querySelectorAll("table.sortable").forEach(makeSortable);
  }

  prepare(document);
  // Parts that a page of a service fetches later.
  document.addEventListener("htmx:load", (event) => prepare(event.detail.elt));
})();
