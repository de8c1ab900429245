// Makes tables sortable: a button in every heading, and the keys of its cells. Everything else on
// these pages works without this script.
"use strict";
(function () {
  function compare(first, second, sign) {
    if (first === second) return 0;
    if (first === "") return 1;
    if (second === "") return -1;
    const a = Number(first), b = Number(second);
    if (!Number.isNaN(a) && !Number.isNaN(b)) return sign * (a - b);
    return sign * first.localeCompare(second, "en", { numeric: true });
  }

  function sort(table, heading, place) {
    const descending = heading.getAttribute("aria-sort") === "ascending";
    const body = table.tBodies[0];
    const rows = Array.from(body.rows);
    const key = (row) => row.cells[place].dataset.key;
    rows.sort((a, b) => compare(key(a), key(b), descending ? -1 : 1));
    body.append(...rows);
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", descending ? "descending" : "ascending");
  }

  for (const table of document.querySelectorAll("table.sortable")) {
    Array.from(table.tHead.rows[0].cells).forEach((heading, place) => {
      const button = document.createElement("button");
      button.type = "button";
      button.title = "Sort by this column";
      button.append(...heading.childNodes);
      heading.append(button);
      button.addEventListener("click", () => sort(table, heading, place));
    });
  }
})();
