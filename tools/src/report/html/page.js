"use strict";

const LEVELS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const PASSES = 44;
const INFINITE = 63;
const SHADES = [1 / 64, 1 / 16, 1 / 4, 1 / 2, 1, 2, 16, 256];

/** The largest ratio of a level. */
function ratioOf(level) {
  if (level === 0) return 0;
  return level === INFINITE ? Infinity : 2 ** ((level - PASSES) / 2);
}

/** The colour of a ratio, as on the map. */
function shadeOf(ratio) {
  return ratio === 0 ? 0 : 1 + SHADES.filter((largest) => ratio > largest).length;
}

/** What a level of a picture of choices says: the share in percent, and how it stands to the reference's. */
function choiceOf(level, parts) {
  const standing = Math.floor(level / (parts + 1));
  return { share: (100 * (level % (parts + 1))) / parts, standing };
}

/** The colour of a level. */
function colourOf(canvas, level) {
  if (!canvas.classList.contains("chosen")) return shadeOf(ratioOf(level));
  const { share, standing } = choiceOf(level, Number(canvas.dataset.parts));
  return standing > 0 ? [6, 8][standing - 1] : Math.ceil(share / 20);
}

/** How much of a colour lies over a picture: what is within its bound lets it through. */
function opacity(canvas, colour) {
  if (!canvas.classList.contains("over")) return 1;
  return colour === 0 ? 0 : colour < 6 ? 0.35 : 0.75;
}

function drawHeat(canvas) {
  const columns = Number(canvas.dataset.columns);
  const style = getComputedStyle(document.documentElement);
  const context = canvas.getContext("2d");
  [...canvas.dataset.levels].forEach((letter, at) => {
    const colour = colourOf(canvas, LEVELS.indexOf(letter));
    const square = [8 * (at % columns), 8 * Math.floor(at / columns), 8, 8];
    context.clearRect(...square);
    context.fillStyle = style.getPropertyValue(`--s${colour}`);
    context.globalAlpha = opacity(canvas, colour);
    context.fillRect(...square);
  });
}

/** The rows or columns of a tile, in words. */
function range(name, tile, tiles, of) {
  const first = Math.ceil((tile * of) / tiles);
  const last = Math.ceil(((tile + 1) * of) / tiles) - 1;
  return first >= last ? `${name} ${first}` : `${name} ${first} to ${last}`;
}

/** The rows of a tile, in words; those of several heads or groups lie one behind the other, `each` of them. */
function rowRange(down, row, rows, of, each) {
  const [outer, inner] = down.split(" × ");
  if (!each || !inner) return range(down, row, rows, of);
  const perOuter = (rows * each) / of;
  return `${outer} ${Math.floor(row / perOuter)}, ${range(inner, row % perOuter, perOuter, each)}`;
}

/** What a level says. */
function said(canvas, level) {
  if (canvas.classList.contains("chosen")) {
    const { share, standing } = choiceOf(level, Number(canvas.dataset.parts));
    const other = ["", ", not as by the reference, which rounding explains", ", not as by the reference"][standing];
    return (share === 0 ? "not chosen" : share === 100 ? "chosen" : `chosen by up to ${share.toFixed(0)} %`) + other;
  }
  const ratio = ratioOf(level);
  return ratio === 0 ? "no error" : ratio === Infinity ? "∞" : `at most ${ratio.toPrecision(2)}`;
}

function readHeat(event) {
  const canvas = event.target;
  const { rows, columns, levels, dim, axes, tokens } = canvas.dataset;
  const box = canvas.getBoundingClientRect();
  const at = (offset, size, count) => Math.max(0, Math.min(count - 1, Math.floor((offset / size) * count)));
  const column = at(event.clientX - box.left, box.width, columns);
  const row = at(event.clientY - box.top, box.height, rows);
  const [allRows, allColumns] = dim.split(",").map(Number);
  const [down, across] = axes.split(",");
  const where = `${rowRange(down, row, rows, allRows, tokens)}, ${range(across, column, columns, allColumns)}`;
  const what = said(canvas, LEVELS.indexOf(levels[row * columns + column]));
  canvas.closest("figure").querySelector(".readout").textContent = `${where}: ${what}`;
}

/** Shows what is said of a cell. */
function choose(report, cell) {
  for (const other of report.querySelectorAll(".map [aria-selected=true]")) other.setAttribute("aria-selected", "false");
  cell.setAttribute("aria-selected", "true");
  focusable(report, cell);
  reveal(cell);
  const template = report.querySelector(`template[data-of="${cell.id}"]`);
  const detail = report.querySelector(".detail");
  detail.replaceChildren(template.content.cloneNode(true));
  for (const canvas of detail.querySelectorAll(".heat")) {
    drawHeat(canvas);
    canvas.addEventListener("pointermove", readHeat);
  }
}

/** Scrolls the map, and only it, until the cell is seen. */
function reveal(cell) {
  const box = cell.closest(".mapbox");
  const heads = cell.closest("table").rows[0].cells[0];
  const outside = (at, size, from, length) => at < from || at + size > from + length;
  const { offsetLeft: x, offsetTop: y, offsetWidth: width, offsetHeight: height } = cell;
  if (outside(x, width, box.scrollLeft + heads.offsetWidth, box.clientWidth - heads.offsetWidth)) {
    box.scrollLeft = x - box.clientWidth / 2;
  }
  if (outside(y, height, box.scrollTop + heads.offsetHeight, box.clientHeight - heads.offsetHeight)) {
    box.scrollTop = y - box.clientHeight / 2;
  }
}

/** Only one cell is reached by the tab key. */
function focusable(report, cell) {
  for (const other of report.querySelectorAll('.map [tabindex="0"]')) other.tabIndex = -1;
  cell.tabIndex = 0;
}

/** The next cell that has something, in a direction. */
function next(cell, down, right) {
  const rows = cell.closest("table").rows;
  let row = cell.parentElement.rowIndex;
  let column = cell.cellIndex;
  for (;;) {
    row += down;
    column += right;
    const found = rows[row]?.cells[column];
    if (!found) return null;
    if (found.id) return found;
  }
}

/** The first or last cell of a row that has something. */
function end(cell, last) {
  const cells = [...cell.parentElement.cells].filter((other) => other.id);
  return last ? cells.at(-1) : cells[0];
}

const KEYS = {
  ArrowUp: (cell) => next(cell, -1, 0),
  ArrowDown: (cell) => next(cell, 1, 0),
  ArrowLeft: (cell) => next(cell, 0, -1),
  ArrowRight: (cell) => next(cell, 0, 1),
  Home: (cell) => end(cell, false),
  End: (cell) => end(cell, true),
};

function press(report, event) {
  const cell = event.target.closest("td[id]");
  if (!cell) return;
  if (event.key === "Enter" || event.key === " ") {
    choose(report, cell);
  } else if (event.key in KEYS) {
    const to = KEYS[event.key](cell);
    if (to) {
      focusable(report, to);
      to.focus();
    }
  } else {
    return;
  }
  event.preventDefault();
}

for (const report of document.querySelectorAll(".report")) {
  const map = report.querySelector(".map");
  if (!map) continue; // A diagnosis has none.
  map.addEventListener("keydown", (event) => press(report, event));
  map.addEventListener("click", (event) => {
    const cell = event.target.closest("td[id]");
    if (cell) choose(report, cell);
  });
  for (const link of report.querySelectorAll('a[href^="#cell"]')) {
    link.addEventListener("click", () => {
      const cell = document.getElementById(link.hash.slice(1));
      choose(report, cell);
      cell.focus({ preventScroll: true });
    });
  }
  const first = map.querySelector("[aria-selected=true]");
  if (first) choose(report, first);
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  for (const canvas of document.querySelectorAll(".detail .heat")) drawHeat(canvas);
});
