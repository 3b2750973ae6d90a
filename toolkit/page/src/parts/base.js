// Elements and numbers. Text reaches the page only through text nodes: nothing here or elsewhere
// assigns innerHTML, so no statement of a log can become markup.
const D = JSON.parse(document.getElementById("data").textContent);
const SVG = "http://www.w3.org/2000/svg";

// What would reorder, hide or break the text around it: controls and marks of direction.
const ODD = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

function visible(text) {
  return String(text).replace(/\r\n/g, "\n").replace(ODD, (c) => {
    const n = c.codePointAt(0);
    if (n < 32) return String.fromCodePoint(0x2400 + n);
    return "<U+" + n.toString(16).toUpperCase().padStart(4, "0") + ">";
  });
}

function add(parent, parts) {
  for (const part of parts.flat(9)) {
    if (part === null || part === undefined || part === false) continue;
    parent.append(part instanceof Node ? part : document.createTextNode(visible(part)));
  }
  return parent;
}

// el("td", {class: "n", title: "..."}, "text", node, [nodes]); a function is a listener.
function make(node, attributes, parts) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") node.addEventListener(name, value);
    else node.setAttribute(name, name === "title" || name === "aria-label" ? visible(value) : value);
  }
  return add(node, parts);
}
const el = (tag, attributes, ...parts) => make(document.createElement(tag), attributes, parts);
const svg = (tag, attributes, ...parts) => make(document.createElementNS(SVG, tag), attributes, parts);

function trimmed(value, digits) {
  const text = value.toFixed(digits);
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

function scaled(value, units, step) {
  let unit = 0;
  while (Math.abs(value) >= step * 0.9995 && unit + 1 < units.length) { value /= step; unit += 1; }
  const a = Math.abs(value);
  return trimmed(value, a < 9.995 ? 2 : a < 99.95 ? 1 : 0) + units[unit];
}

function count(value) {
  if (value === null || value === undefined) return "";
  const a = Math.abs(value);
  if (a < 9999.5) return Number.isInteger(value) ? String(value) : trimmed(value, a < 0.01 ? 5 : a < 0.1 ? 4 : a < 9.995 ? 2 : a < 99.95 ? 1 : 0);
  return scaled(value, ["", " k", " M", " G", " T", " P", " E"], 1000);
}

function bytes(value) {
  if (value === null || value === undefined) return "";
  if (value < 1000) return trimmed(value, 0) + " B";
  return scaled(value, [" B", " kB", " MB", " GB", " TB", " PB"], 1000);
}

function duration(s) {
  if (s === null || s === undefined) return "";
  const a = Math.abs(s);
  if (a < 1e-9) return "0 s";
  const [value, unit] = a < 9.995e-7 ? [s * 1e9, " ns"] : a < 9.995e-4 ? [s * 1e6, " \u00b5s"] : a < 0.9995 ? [s * 1e3, " ms"]
    : a < 600 ? [s, " s"] : a < 7200 ? [s / 60, " min"] : a < 172800 ? [s / 3600, " h"] : [s / 86400, " days"];
  const v = Math.abs(value);
  return trimmed(value, v < 9.995 ? 2 : v < 99.95 ? 1 : 0) + unit;
}

function percent(share) {
  const p = share * 100;
  if (p > 0 && p < 0.05) return "<0.1 %";
  return (p > 0 && p < 9.95 ? trimmed(p, 1) : p.toFixed(0)) + " %";
}

const two = (n) => String(n).padStart(2, "0");

function time(micros) {
  if (micros === null || micros === undefined) return "";
  const d = new Date(micros / 1000);
  if (Number.isNaN(d.getTime())) return "?";
  return d.getUTCFullYear() + "-" + two(d.getUTCMonth() + 1) + "-" + two(d.getUTCDate()) + " " + clock(d);
}
const clock = (d) => two(d.getUTCHours()) + ":" + two(d.getUTCMinutes()) + ":" + two(d.getUTCSeconds());

const unitOf = { seconds: duration, bytes, count };
const plural = (n, one, many) => count(n) + " " + (n === 1 ? one : many || one + "s");
const exact = (n) => Number(n).toLocaleString("en");

function tile(value, label, more) {
  return el("div", { class: "tile" }, el("b", {}, value), el("span", {}, label), more && el("small", {}, more));
}

// The page's head: its title, lines of what it is of, and the switch of colours.
function headOf(title, ...lines) {
  const theme = el("button", { class: "tool", type: "button", click: () => {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  } }, "Light / dark");
  return el("header", {}, el("div", {}, el("h1", {}, title), lines.flat().filter(Boolean).map((line) => el("p", {}, line))), theme);
}
