// SPDX-License-Identifier: Apache-2.0
// An answer of the API as a tree in columns: a child's number is above its parent's, so one pass from either end
// is a walk. Nothing recurses and nothing is an object per node.

import { shown } from './text.js';

const NOTHING = -1;

function hash(text, seed) {
  let v = seed ^ 0x811c9dc5;
  for (let i = 0; i < text.length; i++) v = Math.imul(v ^ text.charCodeAt(i), 0x01000193);
  return v >>> 0;
}

export class Tree {
  /** answer: {strings, frame: {name, lib, file, kind, …}, node: {parent, frame, self, total, more[, self_b, total_b]}} */
  constructor(answer, title) {
    const { node, frame, strings } = answer;
    this.answer = answer;
    this.title = title;
    this.unit = answer.unit;
    this.strings = strings;
    this.frames = frame;
    this.n = Math.max(1, node.parent.length);
    this.parent = Int32Array.from(node.parent);
    this.frame = Int32Array.from(node.frame);
    this.self = Float64Array.from(node.self);
    this.total = Float64Array.from(node.total);
    this.more = node.more ? Float64Array.from(node.more) : new Float64Array(this.n);
    this.isDiff = Boolean(node.total_b);
    if (this.isDiff) {
      this.totalB = Float64Array.from(node.total_b);
      this.sumA = answer.a.total || 1;
      this.sumB = answer.b.total || 1;
    }
    this.names = new Map();
    this.link();
  }

  /** Children of a node, widest first. */
  link() {
    this.first = new Int32Array(this.n).fill(NOTHING);
    this.next = new Int32Array(this.n).fill(NOTHING);
    const order = new Uint32Array(this.n - 1).map((_, i) => i + 1);
    const rank = i => (this.total[i] > 0 && this.more[i] === this.total[i] ? -1 : this.weight(i)); // what is not shown at all comes last
    order.sort((a, b) => rank(a) - rank(b) || this.frame[b] - this.frame[a]);
    for (const i of order) {
      if (this.parent[i] >= i || this.parent[i] < 0) continue; // no tree of ours: left out
      this.next[i] = this.first[this.parent[i]];
      this.first[this.parent[i]] = i;
    }
  }

  /** How wide: a share of everything. In a diff the mean of both, so that what is gone is still seen. */
  weight(i) {
    return this.isDiff ? (this.total[i] / this.sumA + this.totalB[i] / this.sumB) / 2 : this.total[i] / (this.total[0] || 1);
  }

  /** From -1, all of it gone, to 1, all of it new; 0 where chance alone makes such a difference (two standard deviations). */
  change(i) {
    const a = this.total[i] / this.sumA, b = this.totalB[i] / this.sumB;
    const chance = 2 * Math.sqrt(a / (this.answer.a.kept || 1) + b / (this.answer.b.kept || 1));
    return a + b === 0 || Math.abs(b - a) < chance ? 0 : (b - a) / (a + b);
  }

  text(column, f) {
    const at = this.frames[column]?.[f];
    return at === undefined || at < 0 ? '' : typeof at === 'number' ? this.strings[at] ?? '' : at;
  }

  name(i) {
    if (i === 0 && this.title) return this.title;
    const f = this.frame[i];
    let name = this.names.get(f);
    if (name === undefined) this.names.set(f, name = shown(this.text('name', f) || '[unknown]'));
    return name;
  }

  lib(i) { return shown(this.text('lib', this.frame[i])); }
  file(i) { return shown(this.text('file', this.frame[i])); }

  kind(i) {
    if (this.frame[i] < 0) return 'group';
    const kind = this.frames.kind[this.frame[i]];
    return typeof kind === 'number' ? this.strings[kind] ?? '' : kind ?? '';
  }

  isInlined(i) { return Boolean(this.frames.inlined?.[this.frame[i]]); }

  /** The same path has the same mark in every answer, so that a link finds it again. */
  mark(i) {
    const path = this.path(i);
    let v = 0;
    for (const k of path) if (k > 0) v = hash(this.text('name', this.frame[k]), v);
    return v.toString(36);
  }

  find(mark) {
    const marks = new Uint32Array(this.n);
    for (let i = 1; i < this.n; i++) {
      marks[i] = hash(this.text('name', this.frame[i]), marks[this.parent[i]]);
      if (marks[i].toString(36) === mark) return i;
    }
    return 0;
  }

  /** From the root down to i. */
  path(i) {
    const path = [];
    for (; i > 0; i = this.parent[i]) path.unshift(i);
    path.unshift(0);
    return path;
  }

  children(i) {
    const all = [];
    for (let c = this.first[i]; c >= 0; c = this.next[c]) all.push(c);
    return all;
  }

  /** What was left out of the answer below i. */
  leftOut(i) {
    const below = new Uint8Array(this.n);
    let sum = 0;
    for (let k = i; k < this.n; k++) if (k === i || (this.parent[k] >= i && below[this.parent[k]])) [below[k], sum] = [1, sum + this.more[k]];
    return sum;
  }

  /** An answer in which all below i is as another answer has it, which begins behind the group, if i is in one; or null. */
  graft(i, answer) {
    const from = new Tree(answer), same = (k, c) => ['name', 'lib', 'file', 'kind'].every(column => this.text(column, this.frame[k]) === from.text(column, from.frame[c]));
    let at = 0;
    for (const k of this.path(i).filter(k => k > 0 && this.kind(k) !== 'group'))
      if ((at = from.children(at).find(c => same(k, c)) ?? -1) < 0) return null;
    const { strings, frame } = this.answer, n = frame.name.length, columns = { ...frame }, node = { parent: [], frame: [], self: [], total: [], more: [] };
    for (const column of ['name', 'lib', 'file', 'kind']) columns[column] = [...frame[column], ...answer.frame[column].map(s => s + strings.length)];
    columns.inlined = [...frame.inlined, ...answer.frame.inlined];
    const scale = this.total[i] / (from.total[at] || 1); // a little may have come in between
    const places = new Int32Array(this.n).fill(-2), below = new Int32Array(from.n).fill(-1);
    const add = (tree, k, parent, f, by) => node.parent.push(parent) && node.frame.push(f) && node.self.push(tree.self[k] * by) && node.more.push(tree.more[k] * by) && node.total.push(tree.total[k] * by) - 1;
    for (let k = 0; k < this.n; k++)
      if (k === 0 || (places[this.parent[k]] >= 0 && this.parent[k] !== i)) places[k] = add(this, k, k ? places[this.parent[k]] : -1, this.frame[k], 1);
    below[at] = places[i];
    node.self[places[i]] = from.self[at] * scale;
    node.more[places[i]] = from.more[at] * scale;
    for (let k = at + 1; k < from.n; k++) if (below[from.parent[k]] >= 0) below[k] = add(from, k, below[from.parent[k]], from.frame[k] + n, scale);
    return { ...this.answer, strings: [...strings, ...answer.strings], frame: columns, node };
  }

  /** Which frames match, and what share of everything is at or below one of them. */
  search(matches) {
    const frames = new Map(), hit = new Uint8Array(this.n), under = new Uint8Array(this.n);
    let weight = 0, n = 0;
    for (let i = 1; i < this.n; i++) {
      const f = this.frame[i];
      if (!frames.has(f)) frames.set(f, matches(this.name(i)) || matches(this.lib(i)));
      hit[i] = frames.get(f) ? 1 : 0;
      under[i] = under[this.parent[i]] | hit[i];
      n += hit[i];
      if (under[i] && !under[this.parent[i]]) weight += this.weight(i);
    }
    return { hit, share: weight, n };
  }

  /** Rows of [node, x, width] between 0 and 1 below `root`; what is narrower than `least` is one node -1, per parent. */
  layout(root, least) {
    const whole = this.weight(root) || 1, rows = [];
    for (const i of this.path(root)) rows.push([[i, 0, 1]]);
    for (let row = rows.at(-1); row.length > 0; row = rows.at(-1)) {
      const below = [];
      for (const [i, x] of row) {
        if (i < 0) continue;
        let at = x, thin = 0;
        for (let c = this.first[i]; c >= 0; c = this.next[c]) {
          const width = this.weight(c) / whole;
          if (width >= least) {
            below.push([c, at, width]);
            at += width;
          } else thin += width;
        }
        if (!this.isDiff) thin += this.more[i] / (this.total[0] || 1) / whole;
        if (thin >= least) below.push([NOTHING, at, thin, i]);
      }
      rows.push(below);
    }
    rows.pop();
    return rows;
  }
}

/** What somebody typed: text, or /a regular expression/. null: nothing, or no regular expression (yet). */
export function matcher(text) {
  if (!text) return null;
  if (text.length > 1 && text.startsWith('/')) {
    try {
      const re = new RegExp(text.replace(/^\/|\/$/g, ''), 'i');
      return name => re.test(name);
    } catch {
      return null;
    }
  }
  const low = text.toLowerCase();
  return name => name.toLowerCase().includes(low);
}
