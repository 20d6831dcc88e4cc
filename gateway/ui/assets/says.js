// SPDX-License-Identifier: Apache-2.0
// What the rules count of what is looked at, why, and in which traces it was seen: the way from a frame to its metrics, and from
// a metric to its stacks.

import { amount, clock, count, h, metricName, percent, shown } from './text.js';

export class Says {
  /** $: an element by its id. chosen: {metric(name, labels), trace(id), fn(name)}: somebody wants to see it. */
  constructor($, chosen) {
    Object.assign(this, { $, chosen });
  }

  reason(r) {
    const by = r.is === undefined ? '' : [', by ', h('button', { type: 'button', onclick: () => this.chosen.fn(r.is) }, shown(r.is))];
    return h('small', {}, `${r.what} ${shown(r.text)} (${shown(r.file)}:${r.line})`, ...[by].flat());
  }

  row(r, total) {
    const labels = Object.entries(r.labels), bar = h('span', { class: 'share' });
    bar.style.width = `${(96 * r.value) / (total || 1)}%`;
    return h('tr', {},
      h('td', {}, h('button', { type: 'button', title: 'the stacks that it counts', onclick: () => this.chosen.metric(r.metric, labels) }, metricName(r.metric, labels)),
        h('small', {}, `${shown(r.describe)} (${shown(r.file)}:${r.line})`), ...r.because.map(b => this.reason(b))),
      h('td', { title: `${count(r.stacks)} stacks` }, bar, percent(r.value / (total || 1))));
  }

  /** Answers of `rules` and of `examples`. */
  show(rules, traces) {
    const { $ } = this, { total, unit, asked, uncounted, stacks } = rules;
    $('asked').textContent = `${amount(total, unit)} in ${count(stacks)} stacks` + (asked < total ? `; ${percent(1 - asked / total)} in smaller ones, or without a stack, was not asked about` : '');
    $('counted').replaceChildren(...rules.rows.map(r => this.row(r, total)));
    $('uncounted').textContent = [uncounted > 0 ? `No metric takes ${percent(uncounted / total)} of it.` : '', rules.more > 0 ? `${count(rules.more)} smaller series are left out.` : '',
      'The rules in force are asked anew, with what is kept of a stack: attributes are known where a filter names them.'].join(' ').trim();
    $('traces').replaceChildren(...traces.map(x => h('li', {}, clock(x.at), ' ', h('button', { type: 'button', title: 'the stacks of this trace', onclick: () => this.chosen.trace(x.trace_id) }, x.trace_id),
      ` ${shown(x.labels.service_name || '')} ${shown(x.stack.at(-1) || '')} ${amount(x.value, unit)}`)));
    if (traces.length === 0) $('traces').append(h('li', {}, 'No sample of it says which trace it was part of.'));
  }
}
