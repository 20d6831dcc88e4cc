// SPDX-License-Identifier: Apache-2.0
// What is looked at. It stands in the address behind the '#', so that a link brings somebody else to the same view
// and the browser's "back" works; servers and their logs do not get to see it.

export const VIEWS = ['flame', 'functions', 'sandwich', 'diff', 'rules'];
export const SPANS = [['5 minutes', 300e3], ['15 minutes', 900e3], ['1 hour', 3600e3], ['6 hours', 6 * 3600e3], ['24 hours', 24 * 3600e3], ['7 days', 7 * 24 * 3600e3]];
export const CPU = 'process_cpu:cpu:nanoseconds:cpu:nanoseconds';

const DEFAULTS = {
  view: 'flame', type: CPU, service: '', group: 'runtime', span: 900e3,
  end: null,      // of the window, ms; null: now, and it moves on
  range: null,    // [from, to] within it that was dragged
  labels: [],     // further matchers [name, operator, value]
  under: [],      // functions that stacks begin with, the outermost first
  metric: '',     // only stacks that it counts
  series: [],     // in a series with these labels [name, value]
  trace: '',      // only examples of this trace
  search: '', fn: '', zoom: '', sort: 'self', by: 'function',
  aRange: null,   // of a diff's first side; null: what was before
  aService: null, // null: the same
};

export const state = structuredClone(DEFAULTS);

/** Milliseconds that the API takes; null: none. An address may have been cut, or written by hand. */
const moment = text => {
  const ms = Math.round(Number(text));
  return ms > 0 && ms <= 9e12 ? ms : null;
};
const range = text => {
  const [from, to] = (text || '').split('-').map(moment);
  return from && to > from ? [from, to] : null;
};
const one = (text, among, otherwise) => (among.includes(text) ? text : otherwise);
const OPERATOR = /^([a-z0-9_]+)(=~|!~|!=|=)(.*)$/s;

export function read(hash) {
  const q = new URLSearchParams(hash.replace(/^#/, ''));
  Object.assign(state, structuredClone(DEFAULTS), {
    view: one(q.get('view'), VIEWS, 'flame'),
    type: q.get('type') || CPU,
    service: q.get('service') || '',
    group: one(q.get('group'), ['runtime', 'service', 'host', 'container', 'thread'], 'runtime'),
    span: Math.min(Math.max(Number(q.get('span')) || DEFAULTS.span, 60e3), 31 * 86400e3),
    end: moment(q.get('end')),
    range: range(q.get('range')),
    labels: q.getAll('label').map(text => OPERATOR.exec(text)?.slice(1)).filter(Boolean),
    under: q.getAll('under'),
    metric: q.get('metric') || '',
    series: q.getAll('series').map(text => [text.slice(0, text.indexOf('=')), text.slice(text.indexOf('=') + 1)]),
    trace: q.get('trace') || '',
    search: q.get('search') || '',
    fn: q.get('fn') || '',
    zoom: q.get('zoom') || '',
    sort: one(q.get('sort'), ['self', 'total'], 'self'),
    by: one(q.get('by'), ['function', 'library', 'file'], 'function'),
    aRange: range(q.get('arange')),
    aService: q.has('aservice') ? q.get('aservice') : null,
  });
}

/** pinned: with the time that "now" is, for somebody who looks later. */
export function write(pinned) {
  const q = new URLSearchParams();
  const put = (name, value, usual) => value !== usual && value !== null && q.append(name, value);
  for (const name of ['view', 'type', 'service', 'group', 'span', 'metric', 'trace', 'search', 'zoom', 'sort', 'by'])
    put(name, state[name], DEFAULTS[name]);
  if (state.view === 'sandwich' || state.view === 'rules') put('fn', state.fn, '');
  put('end', state.end || (pinned ? Math.round(pinned) : null), null);
  if (state.range) q.append('range', state.range.map(Math.round).join('-'));
  for (const name of state.under) q.append('under', name);
  for (const label of state.series) q.append('series', label.join('='));
  for (const label of state.labels) q.append('label', label.join(''));
  if (state.view === 'diff') {
    if (state.aRange) q.append('arange', state.aRange.map(Math.round).join('-'));
    put('aservice', state.aService, null);
  }
  const text = q.toString();
  return text ? '#' + text : '#';
}
