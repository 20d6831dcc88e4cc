// SPDX-License-Identifier: Apache-2.0
// A flame graph on a canvas of the size of its viewport: however deep and wide the tree, only what is seen is drawn,
// and what is under the pointer is found by a binary search in its row. The outline of what is pointed at has a canvas
// of its own, so that moving the mouse paints one rectangle.

import { kindColor, changeColor, shade, mix } from './colors.js';
import { brief } from './text.js';

export const ROW = 19;
const GAP = 1, LEAST = 0.5, FONT = '12px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace';
const dark = matchMedia('(prefers-color-scheme: dark)');

function shadeOf(text) {
  let v = 0;
  for (let i = 0; i < text.length; i++) v = (Math.imul(v, 31) + text.charCodeAt(i)) | 0;
  return ((v >>> 0) % 5) * 6 - 12;
}

export class Flame {
  /** events: {hover(i, event), select(i), zoomed(i), open(i)}; grows upwards when `up`. */
  constructor(box, events, up = false) {
    Object.assign(this, { box, events, up, root: 0, cursor: -1, hovered: -1, hit: null, rows: [], fills: new Map() });
    box.flame = this;
    this.pad = box.appendChild(document.createElement('div'));
    this.pad.className = 'pad';
    const hold = this.pad.appendChild(document.createElement('div'));
    hold.className = 'hold';
    this.canvas = hold.appendChild(document.createElement('canvas'));
    this.over = hold.appendChild(document.createElement('canvas'));
    for (const c of [this.canvas, this.over]) c.setAttribute('aria-hidden', 'true');
    box.addEventListener('pointermove', e => e.pointerType !== 'touch' && this.hover(this.at(e), e));
    box.addEventListener('pointerleave', e => this.hover(-1, e));
    box.addEventListener('click', e => {
      const i = this.at(e);
      if (i >= 0) this.choose(i);
    });
    box.addEventListener('scroll', () => this.draw());
    box.addEventListener('keydown', e => this.key(e));
    new ResizeObserver(() => this.resize()).observe(box);
    dark.addEventListener('change', () => {
      this.fills.clear();
      this.draw();
    });
  }

  set(tree, root = 0, cursor = 0) {
    Object.assign(this, { tree, root, cursor: cursor || root || -1, hovered: -1, hit: null });
    this.fills.clear();
    this.lay();
  }

  resize() {
    if (this.tree && (this.box.clientWidth !== this.width || this.box.clientHeight !== this.height)) this.lay();
  }

  lay() {
    this.width = this.box.clientWidth;
    this.height = this.box.clientHeight;
    this.rows = this.width > 0 ? this.tree.layout(this.root, LEAST / this.width) : [];
    const whole = this.rows.length * ROW + 2;
    this.pad.style.height = Math.max(whole, this.up ? this.height : 0) + 'px';
    const ratio = devicePixelRatio || 1;
    for (const c of [this.canvas, this.over]) {
      c.width = Math.max(1, this.width * ratio);
      c.height = Math.max(1, this.height * ratio);
      c.style.width = this.width + 'px';
      c.style.height = this.height + 'px';
    }
    if (this.up) this.box.scrollTop = this.box.scrollHeight;
    this.draw();
  }

  /** Where row d begins, from the top of the viewport. */
  y(d) {
    return (this.up ? Math.max(this.height, this.rows.length * ROW + 2) - (d + 1) * ROW - 1 : d * ROW + 1) - this.box.scrollTop;
  }

  rowAt(y) {
    return this.up ? Math.floor((Math.max(this.height, this.rows.length * ROW + 2) - 1 - y - this.box.scrollTop) / ROW)
      : Math.floor((y + this.box.scrollTop - 1) / ROW);
  }

  at(event) {
    const box = this.box.getBoundingClientRect(), x = (event.clientX - box.left) / this.width;
    const row = this.rows[this.rowAt(event.clientY - box.top)];
    if (!row || x > 1) return -1;
    let low = 0, high = row.length - 1;
    while (low <= high) {
      const middle = (low + high) >> 1, [i, from, width] = row[middle];
      if (x < from) high = middle - 1;
      else if (x >= from + width) low = middle + 1;
      else return i;
    }
    return -1;
  }

  fill(i) {
    const f = this.tree.isDiff ? i : this.tree.frame[i];
    let color = this.fills.get(f);
    if (color) return color;
    const kind = this.tree.kind(i);
    if (this.tree.isDiff) color = changeColor(this.tree.change(i));
    else if (kind === 'group') color = '#d5dae1';
    else color = shade(kindColor(kind), shadeOf(this.tree.lib(i) || this.tree.name(i)));
    if (dark.matches) color = mix(color, '#14171c', kind === 'group' ? 0.25 : 0.14);
    this.fills.set(f, color);
    return color;
  }

  hatching(g) {
    const tile = document.createElement('canvas');
    tile.width = tile.height = 6;
    const t = tile.getContext('2d');
    t.strokeStyle = dark.matches ? '#566070' : '#b4bbc6';
    t.lineWidth = 1.2;
    for (const x of [-3, 3, 9]) {
      t.beginPath();
      t.moveTo(x - 3, 6);
      t.lineTo(x + 3, 0);
      t.stroke();
    }
    return g.createPattern(tile, 'repeat');
  }

  /** A name as far as it fits. */
  label(g, name, room) {
    const wide = text => (/^[\x20-\x7e]*$/.test(text) ? text.length * this.letter : g.measureText(text).width);
    if (wide(name) <= room) return name;
    let text = brief(name);
    if (wide(text) <= room) return text;
    let n = Math.min(text.length, Math.floor(room / this.letter) - 1);
    while (n > 0 && wide(text.slice(0, n)) > room - this.letter) n--;
    if (n > 0 && text.charCodeAt(n - 1) >= 0xd800 && text.charCodeAt(n - 1) < 0xdc00) n--;
    return n > 1 ? text.slice(0, n) + '…' : '';
  }

  draw() {
    if (!this.tree) return;
    const g = this.canvas.getContext('2d'), ratio = devicePixelRatio || 1, began = performance.now();
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.clearRect(0, 0, this.width, this.height);
    g.font = FONT;
    g.textBaseline = 'middle';
    g.direction = 'ltr';
    this.letter = g.measureText('0000000000').width / 10;
    const hatch = this.hatching(g), zoomed = this.tree.path(this.root).length - 1;
    this.drawn = 0;
    for (let d = 0; d < this.rows.length; d++) {
      const y = this.y(d);
      if (y + ROW < 0 || y > this.height) continue;
      for (const [i, x, w] of this.rows[d]) {
        const left = x * this.width, width = w * this.width;
        this.drawn++;
        if (i < 0) {
          g.globalAlpha = 1;
          g.fillStyle = hatch;
          g.fillRect(left, y, Math.max(width - GAP / 2, LEAST), ROW - GAP);
          continue;
        }
        g.globalAlpha = this.hit && !this.hit[i] ? 0.28 : d < zoomed ? 0.6 : 1;
        g.fillStyle = this.fill(i);
        g.fillRect(left, y, Math.max(width - (width > 2 ? GAP : 0), LEAST), ROW - GAP);
        if (width < 24) continue;
        const name = this.label(g, this.tree.name(i), width - 7);
        g.fillStyle = '#11141a';
        if (this.tree.isInlined(i)) g.font = 'italic ' + FONT;
        if (name) g.fillText(name, left + 4, y + ROW / 2);
        if (this.tree.isInlined(i)) g.font = FONT;
      }
    }
    g.globalAlpha = 1;
    this.outline();
    this.cost = performance.now() - began;
  }

  outline() {
    const g = this.over.getContext('2d'), ratio = devicePixelRatio || 1;
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.clearRect(0, 0, this.width, this.height);
    for (const i of new Set([this.hovered, this.cursor])) {
      const place = i >= 0 && this.place(i);
      if (!place) continue;
      g.strokeStyle = getComputedStyle(this.box).color;
      g.lineWidth = i === this.cursor ? 2 : 1;
      g.strokeRect(place.x + 0.5, place.y + 0.5, Math.max(place.width - 1.5, 1), ROW - 2);
    }
  }

  /** Where a node is in the viewport, if it is drawn. */
  place(i) {
    const d = this.tree.path(i).length - 1, cell = this.rows[d]?.find(c => c[0] === i);
    return cell ? { x: cell[1] * this.width, width: cell[2] * this.width, y: this.y(d), row: d } : null;
  }

  hover(i, event) {
    if (i !== this.hovered) {
      this.hovered = i;
      this.outline();
    }
    this.events.hover(this, i, event);
  }

  choose(i) {
    this.cursor = i;
    this.zoom(i);
    this.events.select(this, i);
  }

  zoom(i) {
    this.root = i;
    this.lay();
    this.events.zoomed(this, i);
  }

  search(found) {
    const hit = found ? found.hit : null;
    if (hit === this.hit) return;
    this.hit = hit;
    this.draw();
  }

  /** To the neighbour that an arrow points at. */
  step(key) {
    const i = this.cursor < 0 ? this.root : this.cursor, place = this.place(i);
    const down = this.up ? 'ArrowUp' : 'ArrowDown', up = this.up ? 'ArrowDown' : 'ArrowUp';
    if (!place) return this.root;
    if (key === up) return Math.max(this.tree.parent[i], 0);
    const row = this.rows[place.row], below = this.rows[place.row + 1] || [];
    if (key === down) return below.find(c => c[0] >= 0 && this.tree.parent[c[0]] === i)?.[0] ?? i;
    const others = row.filter(c => c[0] >= 0), at = others.findIndex(c => c[0] === i) + (key === 'ArrowRight' ? 1 : -1);
    return others[at]?.[0] ?? i;
  }

  key(e) {
    if (e.ctrlKey || e.metaKey || e.altKey || !this.tree) return;
    if (e.key.startsWith('Arrow')) {
      this.cursor = this.step(e.key);
      const place = this.place(this.cursor);
      if (place && place.y < 0) this.box.scrollTop += place.y - ROW;
      if (place && place.y + ROW > this.height) this.box.scrollTop += place.y + 2 * ROW - this.height;
      this.outline();
      this.events.select(this, this.cursor);
    } else if (e.key === 'Enter' && this.cursor >= 0) this.choose(this.cursor);
    else if (e.key === 'Escape' && this.root > 0) this.zoom(0);
    else if (e.key === 'x' && this.cursor >= 0) this.events.open(this, this.cursor);
    else return;
    e.preventDefault();
    e.stopPropagation();
  }
}
