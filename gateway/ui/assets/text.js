// SPDX-License-Identifier: Apache-2.0
// Words and numbers for people. Names come from whatever process was profiled, so they are hostile: they reach the
// page as text only (trusted types forbid the rest), with what is invisible or turns a line around made visible.

const HARMFUL = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\ufff9-\uffff]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]|\udb40[\udc00-\udfff]/g;
const NAME_MAX = 1000;

function escaped(c) {
  const code = c.codePointAt(0);
  if (code < 0x20) return String.fromCharCode(0x2400 + code); // the control pictures
  if (code === 0x7f) return '\u2421';
  return '\\u{' + code.toString(16) + '}';
}

/** Somebody's name, fit to be shown. */
export function shown(name) {
  const text = String(name).replace(HARMFUL, escaped);
  return text.length > NAME_MAX ? text.slice(0, NAME_MAX) + '…' : text;
}

/** A name that is too long for its place: without folders, packages and what it returns before it, and without what stands in (…) and <…>. */
export function brief(name) {
  name = name.replace(/^[^(<[ ]*\/(?=.)/, '');
  let out = '', depth = 0;
  for (let i = 0; i < name.length; i++) {
    const c = name[i], opens = (c === '(' && name[i + 1] !== '*') || c === '<' || c === '['; // not Go's (*T).method
    if (opens && i > 0) {
      if (depth++ === 0) out += c + '…';
    } else if (depth > 0 && (c === ')' || c === '>' || c === ']') && name[i - 1] !== '-') {
      if (--depth === 0) out += c;
    } else if (depth === 0) out += c;
  }
  out = out.replace(/^(?!operator )[\w.$:<>…*&[\]]+ (?=[\w.$:~<>…+]+\(…\))/, '');
  return out.replace(/^(?:[a-z]\w*\.){2,}(?=[A-Z])/, '');
}

/** An element: h('td', {class: 'num', onclick: f}, 'text', child…). Text is text. */
export function h(tag, attributes, ...children) {
  const e = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key.startsWith('on')) e.addEventListener(key.slice(2), value);
    else if (value === true) e.setAttribute(key, '');
    else if (value !== false && value !== null && value !== undefined) e.setAttribute(key, value);
  }
  e.append(...children.filter(c => c !== null && c !== undefined));
  return e;
}

export function percent(share) {
  const p = 100 * share;
  if (!isFinite(p)) return '–';
  return (p >= 99.95 || p === 0 ? p.toFixed(0) : p >= 9.995 ? p.toFixed(1) : p >= 0.01 ? p.toFixed(2) : '<0.01') + '\u2009%';
}

export function count(n) {
  return Math.round(n).toLocaleString('en').replaceAll(',', '\u2009');
}

const SCALES = [[1e12, 'T'], [1e9, 'G'], [1e6, 'M'], [1e3, 'k']];

function short(v) {
  for (const [from, letter] of SCALES) if (Math.abs(v) >= from) return significant(v / from) + letter;
  return significant(v);
}

function significant(v) {
  const a = Math.abs(v);
  return a >= 99.95 || v === 0 ? v.toFixed(0) : a >= 9.995 ? v.toFixed(1) : a >= 0.0995 ? v.toFixed(2) : a >= 0.00095 ? v.toFixed(4) : v.toExponential(1);
}

/** An amount of a profile's unit. */
export function amount(v, unit) {
  if (unit === 'nanoseconds') {
    const s = v / 1e9;
    if (s >= 36000) return significant(s / 3600) + ' h';
    if (s >= 600) return significant(s / 60) + ' min';
    return s >= 0.9995 || s === 0 ? significant(s) + ' s' : s >= 0.0009995 ? significant(s * 1e3) + ' ms' : significant(s * 1e6) + ' µs';
  }
  if (unit === 'bytes') {
    let u = 0;
    for (; u < 5 && Math.abs(v) >= 1024; u++) v /= 1024;
    return significant(v) + ' ' + ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'][u];
  }
  return short(v) + (unit && unit !== 'count' ? ' ' + shown(unit) : '');
}

/** What a series of that unit is per second: CPU time in a second is cores. */
export function rate(v, unit) {
  return unit === 'cores' ? (v !== 0 && Math.abs(v) < 0.00995 ? v.toFixed(3) : Math.abs(v) < 9.995 ? v.toFixed(2) : significant(v)) : amount(v, unit.replace('/s', '')) + '/s';
}

const two = n => String(n).padStart(2, '0');

/** A moment, in the reader's time zone; with seconds where the step is short, with the day where that is not today. */
export function clock(ms, seconds = true, day = false) {
  const d = new Date(ms);
  const date = day || d.toDateString() !== new Date().toDateString() ? `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())} ` : '';
  return date + two(d.getHours()) + ':' + two(d.getMinutes()) + (seconds ? ':' + two(d.getSeconds()) : '');
}

export function span(ms) {
  const s = Math.round(ms / 1000);
  return s < 120 ? s + ' s' : s < 7200 ? Math.round(s / 60) + ' min' : s < 172800 ? significant(s / 3600) + ' h' : significant(s / 86400) + ' d';
}

/** name{label="value"}, for people. */
export const metricName = (name, labels) => shown(name) + (labels.length > 0 ? `{${labels.map(([k, v]) => `${shown(k)}="${shown(v)}"`).join(', ')}}` : '');
