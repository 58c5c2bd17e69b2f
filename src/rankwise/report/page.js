(function () {
  "use strict";

  // ------------------------------------------------------------ figures

  // Replace CSS variables in colours by their values on the current (light or dark) page.
  function coloured(value, isColour, style) {
    if (Array.isArray(value)) return value.map((part) => coloured(part, isColour, style));
    if (value !== null && typeof value === "object") {
      const parts = Object.entries(value);
      return Object.fromEntries(parts.map(
        ([key, part]) => [key, coloured(part, isColour || key.includes("color"), style)]));
    }
    const named = isColour && typeof value === "string" && value.startsWith("var(");
    return named ? style.getPropertyValue(value.slice(4, -1)).trim() : value;
  }

  const figures = new Map();
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const narrow = window.matchMedia("(max-width: 640px)");

  function draw(box) {
    if (!figures.has(box)) {
      figures.set(box, JSON.parse(box.querySelector("script").textContent));
      box.textContent = "";
    }
    const look = coloured(figures.get(box), false, getComputedStyle(document.documentElement));
    if (narrow.matches && look.data.length > 1) {  // each trace needs a row of the legend
      look.layout.height += 14 * look.data.length;
    }
    // WebGL draws lines one device pixel wide: a higher pixel ratio would make them thinner.
    const options = { responsive: true, displayModeBar: false, plotGlPixelRatio: 1 };
    return plotlyReady.then(() => Plotly.react(box, look.data, look.layout, options))
      .then(function () { box.dataset.drawn = "true"; });
  }

  const boxes = Array.from(document.querySelectorAll(".plot"));
  boxes.forEach((box) => { box.style.minHeight = box.dataset.height + "px"; });
  // Figures are drawn when they come into view, so that the page opens quickly.
  const watcher = new IntersectionObserver(function (entries) {
    entries.filter((entry) => entry.isIntersecting).forEach(function (entry) {
      watcher.unobserve(entry.target);
      draw(entry.target);
    });
  }, { rootMargin: "300px" });
  boxes.forEach((box) => watcher.observe(box));
  window.addEventListener("beforeprint", () => boxes.forEach(draw));
  [dark, narrow].forEach(function (query) {
    query.addEventListener("change", () => figures.forEach((_, box) => draw(box)));
  });

  // ------------------------------------------------------------ tables

  function compare(a, b) {
    const x = a.dataset.v, y = b.dataset.v;
    if (x !== undefined && y !== undefined) return Number(x) - Number(y);
    if (x !== undefined || y !== undefined) return x !== undefined ? -1 : 1;
    return a.textContent.localeCompare(b.textContent, undefined, { numeric: true });
  }

  function isEmpty(cell) { return cell.textContent === "–"; }

  function sortBy(table, column, descending) {
    const rows = Array.from(table.tBodies[0].rows);
    rows.sort(function (r, s) {
      const a = r.cells[column], b = s.cells[column];
      if (isEmpty(a) || isEmpty(b)) return isEmpty(a) - isEmpty(b);  // empty cells are last in both orders
      return descending ? compare(b, a) : compare(a, b);
    });
    table.tBodies[0].append(...rows);
    Array.from(table.tHead.rows[0].cells).forEach(function (head, j) {
      const order = descending ? "descending" : "ascending";
      head.setAttribute("aria-sort", j === column ? order : "none");
    });
  }

  function makeSortable(table) {
    Array.from(table.tHead.rows[0].cells).forEach(function (head, column) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      button.addEventListener("click", function () {
        sortBy(table, column, head.getAttribute("aria-sort") === "ascending");
      });
      head.replaceChildren(button);
    });
  }

  // Convert one word of a filter to a test of a row: "rbf", "kernel=rbf", "C>=10".
  function testOf(word, heads) {
    const parts = /^(.+?)(<=|>=|<|>)([-+.\deE]+)$/.exec(word);
    const column = parts ? heads.indexOf(parts[1]) : -1;
    if (column < 0) {
      return (cells, texts) => texts.some((text) => text.includes(word));
    }
    const limit = Number(parts[3]);
    const holds = { "<": (v) => v < limit, "<=": (v) => v <= limit,
      ">": (v) => v > limit, ">=": (v) => v >= limit }[parts[2]];
    return function (cells) {
      const v = cells[column].dataset.v;
      return v !== undefined && holds(Number(v));
    };
  }

  function makeFilterable(table, number) {
    const heads = Array.from(table.tHead.rows[0].cells, (head) => head.textContent.toLowerCase());
    const rows = Array.from(table.tBodies[0].rows, function (row) {
      const cells = Array.from(row.cells);
      const texts = cells.map((cell, j) => heads[j] + "=" + cell.textContent.toLowerCase());
      return { row, cells, texts };
    });
    const bar = document.createElement("div");
    const label = document.createElement("label");
    const input = document.createElement("input");
    const count = document.createElement("output");
    bar.className = "filter";
    input.id = "filter-" + number;
    input.type = "search";
    label.htmlFor = input.id;
    label.textContent = "Filter";
    count.setAttribute("aria-live", "polite");
    input.placeholder = "a word, or value<0.5";
    function apply() {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      const tests = words.map((word) => testOf(word, heads));
      let left = 0;
      rows.forEach(function (r) {
        r.row.hidden = !tests.every((test) => test(r.cells, r.texts));
        left += r.row.hidden ? 0 : 1;
      });
      count.textContent = left + " of " + rows.length + " rows";
    }
    input.addEventListener("input", apply);
    bar.append(label, input, count);
    table.parentElement.before(bar);
    apply();
  }

  document.querySelectorAll("table.sortable").forEach(function (table, number) {
    makeFilterable(table, number);
    makeSortable(table);
  });
})();
