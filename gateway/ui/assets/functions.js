// SPDX-License-Identifier: Apache-2.0
// The table of functions (libraries, files): what a screen reader has instead of the flame graph, and the quickest
// answer to "what is it?" for everybody.

import { kindColor } from './colors.js';
import { amount, count, h, percent, shown } from './text.js';

/** answer: of `top`. chosen(row): somebody wants to see it. */
export class Functions {
  constructor(body, more, chosen) {
    Object.assign(this, { body, more, chosen, answer: null, matches: null, wide: false });
  }

  row(r, most) {
    const { total, unit } = this.answer, swatch = h('i');
    swatch.style.background = kindColor(r.kind);
    const name = shown(r.name) || '[unknown]', where = shown(r.lib && r.lib !== r.name ? r.lib.replace(/.*\/(?=.)/, '') : '');
    const cells = [[r.self, most.self], [r.total, most.total]].map(([v, longest]) => {
      const bar = h('span', { class: 'share' }), share = v / (total || 1);
      bar.style.width = `${Math.min(96, (96 * v) / (longest || 1))}%`;
      return h('td', { title: amount(v, unit) }, bar, this.wide ? amount(v, unit) + '\u2003' : '', percent(share));
    });
    return h('tr', { onclick: () => this.chosen(r) },
      h('td', { title: [name, shown(r.lib || ''), shown(r.file || '')].filter(Boolean).join('\n') }, h('div', {}, r.kind ? swatch : '', h('button', { type: 'button' }, name), where ? h('small', {}, where) : '')), ...cells);
  }

  draw() {
    if (!this.answer) return;
    const rows = this.answer.rows.filter(r => !this.matches || this.matches(shown(r.name)) || this.matches(shown(r.lib || '')));
    const most = { self: Math.max(...rows.map(r => r.self)), total: Math.max(...rows.map(r => r.total)) };
    const focused = [...this.body.querySelectorAll('button')].indexOf(document.activeElement);
    this.body.replaceChildren(...rows.map(r => this.row(r, most)));
    if (focused >= 0) this.body.querySelectorAll('button')[focused]?.focus();
    const left = this.answer.rows.length - rows.length;
    this.more.textContent = [rows.length === 0 ? 'Nothing here.' : '', left ? `${count(left)} do not match.` : '', this.answer.more ? `${count(this.answer.more)} smaller ones are left out.` : ''].join(' ').trim();
  }
}
