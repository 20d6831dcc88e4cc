// SPDX-License-Identifier: Apache-2.0
// Series over time, stacked, on a canvas: what the rate was, by what; dragging chooses a range of it.

import { seriesColor, OTHER, mix, KIND_WORDS } from './colors.js';
import { clock, h, rate, shown } from './text.js';

const LEFT = 46, BOTTOM = 18, TOP = 6, DRAG_MIN = 4;
const dark = matchMedia('(prefers-color-scheme: dark)');
const STEPS = [1e3, 2e3, 5e3, 10e3, 15e3, 30e3, 60e3, 120e3, 300e3, 600e3, 900e3, 1800e3, 3600e3, 7200e3, 3 * 3600e3, 6 * 3600e3, 12 * 3600e3, 86400e3, 2 * 86400e3];

function nice(most) {
  const power = 10 ** Math.floor(Math.log10(most / 3)), part = most / 3 / power;
  return (part > 5 ? 10 : part > 2 ? 5 : part > 1 ? 2 : 1) * power;
}

export class Chart {
  /** events: {ranged([from, to] or null, secondary), chosen(label), mayChoose(), said(text)} */
  constructor(box, legend, events) {
    Object.assign(this, { box, legend, events, ranges: {}, pointer: null, drag: null, cursor: null, mark: null });
    box.chart = this;
    this.canvas = box.appendChild(document.createElement('canvas'));
    this.canvas.setAttribute('aria-hidden', 'true');
    box.addEventListener('pointerdown', e => {
      if (e.button !== 0 || !this.data) return;
      box.setPointerCapture(e.pointerId);
      this.drag = { from: this.x(e), to: this.x(e), second: e.shiftKey };
    });
    box.addEventListener('pointermove', e => {
      this.pointer = this.x(e);
      if (this.drag) this.drag.to = this.pointer;
      this.draw();
    });
    box.addEventListener('pointerup', () => this.drop());
    box.addEventListener('pointercancel', () => (this.drag = null));
    box.addEventListener('pointerleave', () => {
      this.pointer = null;
      this.draw();
    });
    box.addEventListener('dblclick', () => events.ranged(null, false));
    box.addEventListener('keydown', e => this.key(e));
    new ResizeObserver(() => this.draw()).observe(box);
    dark.addEventListener('change', () => this.set(this.data));
  }

  /** An answer of `series`, with `to`. */
  set(data) {
    if (!data) return;
    this.data = data;
    const mean = values => values.reduce((a, b) => a + b, 0) / (values.length || 1);
    this.series = data.series.map((s, n) => ({ label: s.label, values: s.values, mean: mean(s.values), color: seriesColor(s.label, n) }));
    if (data.other?.length > 0) this.series.push({ label: null, values: data.other, mean: mean(data.other), color: OTHER });
    if (dark.matches) for (const s of this.series) s.color = mix(s.color, '#14171c', 0.14);
    this.n = this.series[0]?.values.length || 0;
    this.sums = new Float64Array(this.n);
    for (const s of this.series) for (let i = 0; i < this.n; i++) this.sums[i] += s.values[i];
    this.to = data.from + this.n * data.step;
    this.most = Math.max(...this.sums, 0) * 1.08 || 1;
    this.box.setAttribute('aria-label', this.summary());
    this.draw();
  }

  words(s) { return s.label === null ? 'others' : KIND_WORDS[s.label] || shown(s.label) || '[none]'; }

  summary() {
    const peak = this.sums.length ? this.sums.indexOf(Math.max(...this.sums)) : -1;
    const average = this.sums.reduce((a, b) => a + b, 0) / (this.n || 1);
    const unit = this.data.unit === 'cores' ? ' cores' : '';
    return peak < 0 ? 'Nothing in this time' : `Over time: ${rate(average, this.data.unit)}${unit} on average, most ${rate(this.sums[peak], this.data.unit)}${unit} at ` +
      `${clock(this.data.from + peak * this.data.step)}. ` + this.series.map(s => `${this.words(s)} ${rate(s.mean, this.data.unit)}`).join(', ') +
      '. Arrow keys move, Space begins and ends a range, Escape ends it.';
  }

  x(event) { return event.clientX - this.box.getBoundingClientRect().left; }
  time(x) { return this.data.from + (Math.max(0, Math.min(1, (x - LEFT) / (this.box.clientWidth - LEFT)))) * (this.to - this.data.from); }
  place(time) { return LEFT + ((time - this.data.from) / (this.to - this.data.from)) * (this.box.clientWidth - LEFT); }

  /** Of whole steps, at least one. */
  whole(a, b) {
    const { from, step } = this.data, low = Math.min(a, b), high = Math.max(a, b);
    return [from + Math.floor((low - from) / step) * step, from + Math.max(Math.ceil((high - from) / step), Math.floor((low - from) / step) + 1) * step];
  }

  drop() {
    const drag = this.drag;
    this.drag = null;
    if (!drag || !this.data) return;
    if (Math.abs(drag.to - drag.from) >= DRAG_MIN) this.events.ranged(this.whole(this.time(drag.from), this.time(drag.to)), drag.second);
    this.draw();
  }

  key(e) {
    if (!this.data || e.ctrlKey || e.metaKey || e.altKey) return;
    const { step, from } = this.data, last = this.to - step, edge = this.cursor ?? last;
    if (e.key === 'ArrowLeft') this.cursor = Math.max(from, edge - step);
    else if (e.key === 'ArrowRight') this.cursor = Math.min(last, edge + step);
    else if (e.key === 'Home') this.cursor = from;
    else if (e.key === 'End') this.cursor = last;
    else if (e.key === ' ' && this.mark === null) this.mark = edge;
    else if (e.key === ' ') {
      this.events.ranged(this.whole(this.mark, edge < this.mark ? edge : edge + step), e.shiftKey);
      this.mark = null;
    } else if (e.key === 'Escape') {
      this.mark = this.cursor = null;
      this.events.ranged(null, false);
    } else return;
    e.preventDefault();
    e.stopPropagation();
    this.pointer = this.cursor === null ? null : this.place(this.cursor + step / 2);
    const i = this.cursor === null ? -1 : Math.round((this.cursor - from) / step);
    if (i >= 0) this.events.said(`${clock(this.cursor)}: ${rate(this.sums[i], this.data.unit)}${this.mark !== null ? ', in a range' : ''}`);
    this.draw();
  }

  draw() {
    const width = this.box.clientWidth, height = this.box.clientHeight, ratio = devicePixelRatio || 1;
    this.canvas.width = width * ratio;
    this.canvas.height = height * ratio;
    this.canvas.style.width = width + 'px';
    this.canvas.style.height = height + 'px';
    const g = this.canvas.getContext('2d'), style = getComputedStyle(this.box);
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    if (!this.data || this.n === 0 || width <= LEFT) return this.tell(null);
    g.font = '11px system-ui, sans-serif';
    const muted = style.getPropertyValue('--muted'), line = style.getPropertyValue('--line');
    const bottom = height - BOTTOM, y = v => bottom - (v / this.most) * (bottom - TOP);
    this.axes(g, width, bottom, y, muted, line);
    const below = new Float64Array(this.n);
    for (const s of this.series) {
      g.fillStyle = s.color;
      g.beginPath();
      for (let i = 0; i < this.n; i++) {
        const left = this.place(this.data.from + i * this.data.step), right = this.place(this.data.from + (i + 1) * this.data.step);
        g.rect(left, y(below[i] + s.values[i]), Math.max(right - left - (right - left > 6 ? 1 : 0), 0.5), y(below[i]) - y(below[i] + s.values[i]));
        below[i] += s.values[i];
      }
      g.fill();
    }
    for (const [name, range] of Object.entries({ ...this.ranges, ...this.dragged() })) this.band(g, range, bottom, name, style);
    if (this.pointer !== null && this.pointer >= LEFT) {
      g.fillStyle = muted;
      g.fillRect(this.pointer, TOP, 1, bottom - TOP);
    }
    if (this.mark !== null) this.band(g, this.whole(this.mark, this.cursor ?? this.mark), bottom, '', style);
    this.tell(this.pointer !== null && this.pointer >= LEFT ? Math.min(this.n - 1, Math.floor((this.time(this.pointer) - this.data.from) / this.data.step)) : null);
  }

  dragged() {
    const d = this.drag;
    return d && Math.abs(d.to - d.from) >= DRAG_MIN ? { '': this.whole(this.time(d.from), this.time(d.to)) } : {};
  }

  axes(g, width, bottom, y, muted, line) {
    g.fillStyle = muted;
    g.textAlign = 'right';
    g.textBaseline = 'middle';
    const by = nice(this.most);
    for (let v = 0; v <= this.most; v += by) {
      g.fillStyle = line;
      g.fillRect(LEFT, Math.round(y(v)), width - LEFT, 1);
      g.fillStyle = muted;
      g.fillText(rate(v, this.data.unit).replace(/\.0+$/, ''), LEFT - 6, y(v) + (v === 0 ? -3 : 0));
    }
    const room = (this.to - this.data.from) / ((width - LEFT) / 90), every = STEPS.find(s => s >= room) || 7 * 86400e3;
    const zone = new Date(this.data.from).getTimezoneOffset() * 60e3;
    g.textAlign = 'center';
    for (let t = Math.ceil((this.data.from - zone) / every) * every + zone; t < this.to; t += every) {
      const x = this.place(t);
      if (x > LEFT + 20 && x < width - 24) g.fillText(every >= 86400e3 ? clock(t, false, true).slice(5, 10) : clock(t, every < 60e3).slice(-(every < 60e3 ? 8 : 5)), x, bottom + 10);
    }
  }

  band(g, range, bottom, name, style) {
    const from = Math.max(LEFT, this.place(range[0])), to = Math.min(this.box.clientWidth, this.place(range[1]));
    if (to <= from) return;
    g.fillStyle = g.strokeStyle = style.getPropertyValue(name === 'A' ? '--less' : name === 'B' ? '--more' : '--accent');
    g.globalAlpha = 0.16;
    g.fillRect(from, 0, to - from, bottom);
    g.globalAlpha = 1;
    g.lineWidth = 1.5;
    g.strokeRect(from + 0.75, 0.75, to - from - 1.5, bottom - 1.5);
    if (!name) return;
    g.textAlign = 'left';
    g.font = 'bold 12px system-ui, sans-serif';
    g.fillText(name, from + 5, 11);
  }

  /** The legend: what was at a moment, or on average. */
  tell(i) {
    const unit = this.data?.unit || '', key = [i, this.events.mayChoose(), this.data?.from, this.n, dark.matches, this.data === this.told].join();
    if (key === this.toldKey) return;
    this.toldKey = key;
    this.told = this.data;
    const items = (this.series || []).map(s => {
      const swatch = h('i');
      swatch.style.background = s.color;
      const text = [swatch, this.words(s), ' ', h('b', {}, rate(i === null ? s.mean : s.values[i], unit))];
      return h('li', {}, s.label !== null && this.events.mayChoose() ? h('button', { type: 'button', title: 'only this', onclick: () => this.events.chosen(s.label) }, ...text) : h('span', {}, ...text));
    });
    const when = i === null ? 'average' : clock(this.data.from + i * this.data.step);
    const all = this.n ? rate(i === null ? this.sums.reduce((a, b) => a + b, 0) / this.n : this.sums[i], unit) : '';
    this.legend.replaceChildren(h('li', { class: 'when' }, when, ' ', h('b', {}, all), unit === 'cores' ? ' cores' : ''), ...items);
  }
}
