// SPDX-License-Identifier: Apache-2.0
// The page: what is asked for when, and what stands where. The state is in the address (state.js), the answers are the
// gateway's (api.js), the pictures are flame.js, chart.js and functions.js.

import { get, join, Refused, selector, url } from './api.js';
import { Chart } from './chart.js';
import { changeColor, kindColor, KIND_WORDS } from './colors.js';
import { Flame } from './flame.js';
import { Says } from './says.js';
import { Functions } from './functions.js';
import { CPU, read, SPANS, state, VIEWS, write } from './state.js';
import { amount, clock, count, h, metricName, percent, rate, shown, span } from './text.js';
import { matcher, Tree } from './tree.js';

const $ = id => document.getElementById(id);
const EVERY = 10e3;       // new stacks come in slices of ten seconds
const SERVICES_SHOWN = 9; // of all services together, each with a tree of its own
const NODES_EACH = 1500;

let now = Date.now();   // what "now" was when the answers that are shown were asked for
let cycle = null, timer = 0, answers = {}, chosen = null;
const marks = (window.marks = {}); // how long things took, ms

// ---- what is asked ---------------------------------------------------------------------------

const window_ = () => [Math.max((state.end || now) - state.span, 0), state.end || now];
const rangeOf = () => state.range || window_();
const matchers = service => [...(service ? [['service_name', '=', service]] : []), ...state.labels];

/** Of all stacks those that somebody chose. */
const chosenStacks = () => ({ root: state.under, metric: state.metric, trace_id: state.trace, ...Object.fromEntries(state.series.map(([name, value]) => ['metric.' + name, value])) });

function selection(range = rangeOf(), service = state.service) {
  const [from, to] = range.map(Math.round);
  return { from, to, query: selector(matchers(service)), type: state.type, ...chosenStacks() };
}

/** What a diff compares: B is what is chosen, A what was before it, unless somebody says otherwise. */
function sides() {
  const [asked, to] = window_(), from = Math.min(Math.max(asked, answers.series?.from || 0), to), middle = (from + to) / 2;
  const other = state.aService !== null && state.aService !== state.service;
  const b = state.range || (other || state.aRange ? [from, to] : [middle, to]);
  const a = state.aRange || (other ? b : [Math.max(from, 2 * b[0] - b[1]), b[0]]);
  return { a: a[1] > a[0] ? a : b, b, service: state.aService ?? state.service };
}

async function treeOf(signal, services) {
  if (state.view === 'sandwich') return state.fn ? get('sandwich', { ...selection(), function: state.fn }, signal) : null;
  if (state.view === 'diff') {
    const { a, b, service } = sides(), query = { type: state.type, ...chosenStacks() };
    for (const [side, s] of [['a', selection(a, service)], ['b', selection(b)]]) for (const key of ['from', 'to', 'query']) query[`${side}.${key}`] = s[key];
    return get('diff', query, signal);
  }
  const all = (await services).filter(s => s.value > 0);
  if (state.service || state.metric || state.trace || state.under.length > 0 || state.labels.some(l => l[0] === 'service_name') || all.length < 2) return get('flame', selection(), signal);
  const parts = await Promise.all(all.slice(0, SERVICES_SHOWN).map(async ({ service }) =>
    ({ service, answer: await get('flame', { ...selection(rangeOf(), ''), query: selector([['service_name', '=', service], ...state.labels]), nodes: NODES_EACH }, signal) })));
  const others = all.slice(SERVICES_SHOWN), sum = key => others.reduce((n, s) => n + s[key], 0);
  return join(parts, { value: sum('value'), samples: sum('samples') }, `[${others.length} more services]`);
}

async function load() {
  clearTimeout(timer);
  cycle?.abort();
  const { signal } = (cycle = new AbortController()), began = performance.now();
  if (!state.end) now = Date.now();
  const [from, to] = window_().map(Math.round), range = rangeOf().map(Math.round);
  document.body.ariaBusy = 'true';
  try {
    const services = get('services', { from: range[0], to: range[1], type: state.type, query: selector(state.labels) }, signal);
    const asked = {
      services,
      tree: state.view === 'rules' ? null : treeOf(signal, services),
      series: get('series', { ...selection([from, to]), group: state.group, limit: 7 }, signal),
      top: get('top', { ...selection(), sort: state.sort, by: state.by, limit: 300 }, signal),
      types: get('types', { from, to }, signal),
      rules: state.view === 'rules' ? get('rules', { ...selection(), function: state.fn, limit: 200 }, signal) : null,
      traces: state.view === 'rules' ? get('examples', { ...selection(), filter: state.fn, limit: 20 }, signal) : null,
    };
    const got = await Promise.all(Object.values(asked));
    Object.keys(asked).forEach((key, i) => (answers[key] = got[i]));
    marks.answered = performance.now() - began;
    if (state.view === 'sandwich' && !state.fn && answers.top.rows.length > 0) {
      state.fn = answers.top.rows[0].name;
      return load();
    }
    say('');
    show();
    marks.shown = performance.now() - began;
    document.body.dataset.loads = 1 + Number(document.body.dataset.loads || 0);
  } catch (error) {
    if (error.name === 'AbortError') return;
    say(words(error));
  } finally {
    if (!signal.aborted) document.body.ariaBusy = 'false';
  }
  if (!signal.aborted && !state.end && !state.range) timer = setTimeout(() => (document.hidden ? (timer = -1) : load()), EVERY);
}

function words(error) {
  if (!(error instanceof Refused)) return `The gateway does not answer (${error.message}). Is it running?`;
  if (error.status === 404) return 'This gateway keeps no stacks. Start it with --set look.memory=64MiB, or have look: { memory: 64MiB } in its configuration. Where its admin address is not of this machine alone, its log says what it needs besides.';
  return `The gateway says: ${shown(error.message)}`;
}

function say(text) {
  $('message').textContent = text;
  $('message').hidden = !text;
}

// ---- what is shown ---------------------------------------------------------------------------

function show() {
  const { tree, series, top, rules } = answers, sandwich = state.view === 'sandwich';
  fill($('service'), [['', 'all services'], ...answers.services.map(s => [s.service, `${shown(s.service) || '[no service.name]'}  ${s.cores !== undefined ? rate(s.cores, 'cores') : percent(s.share)}`])], state.service);
  fill($('type'), answers.types.map(t => [t.id, shown(t.id.split(':').slice(0, 2).join(' '))]), state.type);
  $('type-label').hidden = answers.types.length < 2 && state.type === CPU;
  const kind = answers.types.find(t => t.id === state.type);
  chart.set({ ...series, unit: series.unit === 'cores' ? 'cores' : (kind?.unit || 'count') + '/s' });
  bands();
  functions.wide = state.view === 'functions';
  functions.answer = top; // search() draws it
  controls();
  if (rules) says.show(rules, answers.traces);
  if (tree && sandwich) {
    const part = node => new Tree({ ...tree, node: tree[node] }, shown(tree.function));
    callers.set(part('callers'));
    graph.set(part('callees'));
  } else if (tree) {
    const t = new Tree(tree, shown(state.view === 'diff' ? 'all' : state.service || 'all')), was = graph.tree && graph.cursor > 0 ? graph.tree.mark(graph.cursor) : '';
    graph.set(t, state.zoom ? t.find(state.zoom) : 0, was ? t.find(was) : 0);
  }
  pathOf(graph, graph.root);
  legend();
  notes();
  search();
  detail(graph, sandwich ? -1 : graph.cursor);
  deepen(graph.root);
  document.title = [shown(state.service), 'profgate'].filter(Boolean).join(' – ');
}

function notes() {
  const { tree, top } = answers;
  let text = '';
  if (state.view === 'diff' && tree) {
    const one = (side, s) => `${side} ${amount(s.total, tree.unit)}, ${count(s.kept)} samples`;
    text = one('A', tree.a) + ' · ' + one('B', tree.b);
  } else {
    const { total, unit, seen, kept, p, not_kept: without, window: w } = { ...top };
    text = `${amount(total, unit)} in ${span(w.to - w.from)} · ${count(kept)} samples` + (kept > 0 ? ` ±${percent(1 / Math.sqrt(kept))}` : '') + (p < 1 && seen > kept ? ` (of ${count(seen)}, scaled up)` : '') +
      (without > 0 ? ` · ${percent(without / total)} has no stack: there was no room (look.memory, samples_per_second)` : '');
  }
  $('note').textContent = text;
  const empty = state.view === 'diff' ? tree && (tree.a.total === 0 || tree.b.total === 0) && `Nothing was kept in ${tree.a.total === 0 ? 'A' : 'B'}: choose another range.`
    : top.total === 0 && 'Nothing was kept in this time. Does a profiler send to this gateway?  profsend --endpoint http://THIS-HOST:4317';
  if (empty) say(empty);
}

function bands() {
  const { a, b } = sides();
  chart.ranges = state.view === 'diff' ? (String(a) === String(b) ? { 'A, B': b } : { A: a, B: b }) : state.range ? { '': state.range } : {};
  chart.draw();
}

function fill(select, options, value) {
  if (!options.some(o => o[0] === value)) options.push([value, shown(value)]);
  const text = JSON.stringify(options);
  if (select.dataset.options !== text && (document.activeElement !== select || ![...select.options].some(o => o.value === value))) { // not under somebody's hand
    select.dataset.options = text;
    select.replaceChildren(...options.map(([v, t]) => h('option', { value: v }, t)));
  }
  select.value = value;
}

/** All that only depends on the state. */
function controls() {
  document.body.className = state.view;
  $('says').hidden = state.view !== 'rules';
  for (const view of VIEWS) $('tab-' + view).setAttribute('aria-selected', view === state.view);
  fill($('span'), [...(SPANS.some(s => s[1] === state.span) ? [] : [[String(state.span), span(state.span)]]), ...SPANS.map(([t, ms]) => [String(ms), t])], String(state.span));
  $('live').setAttribute('aria-pressed', !state.end && !state.range);
  for (const name of ['group', 'by']) $(name).value = state[name];
  if (document.activeElement !== $('search')) $('search').value = state.search;
  document.querySelectorAll('[data-sort]').forEach(b => b.closest('th').setAttribute('aria-sort', b.dataset.sort === state.sort ? 'descending' : 'none'));
  $('callers').hidden = state.view !== 'sandwich';
  $('graph').setAttribute('aria-label', state.view === 'sandwich' ? 'callees of ' + shown(state.fn) : `flame graph of ${shown(state.service) || 'all services'}; the table of functions says the same`);
  $('callers').setAttribute('aria-label', 'callers of ' + shown(state.fn));
  const chip = (text, without) => h('span', { class: 'chip', title: text }, h('span', {}, text), h('button', { type: 'button', 'aria-label': 'remove the filter ' + text, onclick: () => go({ zoom: '', ...without }) }, '×'));
  const chips = state.labels.map((l, i) => chip(shown(l.join(' ')), { labels: state.labels.filter((_, k) => k !== i) }));
  if (state.metric) chips.push(chip('counted by ' + metricName(state.metric, state.series), { metric: '', series: [] }));
  if (state.trace) chips.push(chip('trace ' + shown(state.trace), { trace: '' }));
  if (state.under.length > 0) chips.push(chip('below ' + shown(state.under.at(-1)), { under: [] }));
  if (state.view === 'rules' && state.fn) chips.push(chip('with ' + shown(state.fn), { fn: '' }));
  if (state.range && state.view !== 'diff')
    chips.unshift(h('span', { class: 'chip' }, `${clock(state.range[0])} – ${clock(state.range[1]).slice(-8)}`, h('button', { type: 'button', 'aria-label': 'all of the time', onclick: () => go({ range: null }) }, '×')));
  $('chips').replaceChildren(...chips);
  $('sides').hidden = state.view !== 'diff';
  if (state.view === 'diff') {
    const { a, b, service } = sides(), name = s => shown(s) || 'all services', time = r => `${clock(r[0])} – ${clock(r[1]).slice(-8)}`;
    fill($('a-service'), [...new Set([state.service, '', ...(answers.services || []).map(s => s.service)])].map(s => [s, name(s)]), service);
    $('a-range').textContent = time(a);
    $('b-range').textContent = `${name(state.service)} ${time(b)}`;
  }
  for (const kind of ['pprof', 'folded']) $(kind).href = url(kind, selection());
}

function legend() {
  const item = (color, text) => {
    const swatch = h('i');
    swatch.style.background = color;
    return h('li', {}, swatch, text);
  };
  if (state.view === 'diff') {
    $('kinds').replaceChildren(item(changeColor(-1), 'less in B'), item(changeColor(0), 'no more than chance'), item(changeColor(1), 'more in B'), h('li', {}, 'width: mean of both'));
    return;
  }
  const kinds = new Map(), t = graph.tree;
  for (let i = 1; t && i < t.n; i++) {
    const kind = t.kind(i);
    if (kind !== 'group') kinds.set(kind, (kinds.get(kind) || 0) + t.self[i]);
  }
  $('kinds').replaceChildren(...[...kinds].sort((a, b) => b[1] - a[1]).map(([k]) => item(kindColor(k), KIND_WORDS[k] || shown(k) || 'unknown')));
}

function facts(t, i) {
  const share = v => `${amount(v, t.unit)} (${percent(v / (t.total[0] || 1))}${state.view === 'sandwich' ? ' of it' : ''})`;
  if (t.isDiff) return `A ${percent(t.total[i] / t.sumA)} → B ${percent(t.totalB[i] / t.sumB)}` + (t.change(i) === 0 ? ', no more than chance' : '');
  return `total ${share(t.total[i])}, self ${share(t.self[i])}` + (t.more[i] > 0 ? `, left out below it ${amount(t.more[i], t.unit)}` : '');
}

const about = (t, i) => [t.kind(i) === 'group' ? '' : KIND_WORDS[t.kind(i)] || shown(t.kind(i)), t.isInlined(i) ? 'inlined' : '', t.lib(i), t.file(i)].filter(Boolean).join(' · ');

function detail(flame, i) {
  chosen = flame && i >= 0 ? { flame, i } : null;
  $('said').textContent = chosen ? `${flame.tree.name(i)}: ${facts(flame.tree, i)}. ${about(flame.tree, i)}` : 'Click a frame to look into it.';
  $('acts').hidden = !chosen || flame.tree.kind(i) === 'group';
  $('do-under').hidden = state.view !== 'flame';
}

function tip(flame, i, event) {
  const box = $('tip');
  box.hidden = i < 0;
  if (i < 0) return;
  const t = flame.tree;
  box.replaceChildren(h('b', {}, t.name(i).slice(0, 400)), facts(t, i), h('small', {}, about(t, i).slice(0, 400)));
  const { width, height } = box.getBoundingClientRect();
  box.style.left = Math.max(4, Math.min(event.clientX + 14, innerWidth - width - 8)) + 'px';
  box.style.top = (event.clientY + 18 + height > innerHeight ? event.clientY - height - 12 : event.clientY + 18) + 'px';
}

function pathOf(flame, i) {
  if (!flame.tree) return;
  $('path').replaceChildren(...flame.tree.path(i).flatMap((k, n) => [n ? '›' : null, h('button', { type: 'button', title: flame.tree.name(k), onclick: () => flame.zoom(k) }, flame.tree.name(k))]).filter(Boolean).slice(-13));
}

function search() {
  const matches = matcher(state.search);
  functions.matches = matches;
  functions.draw();
  if (!graph.tree) return;
  const found = matches && graph.tree.search(matches);
  graph.search(found);
  if (state.view === 'sandwich' && callers.tree) callers.search(matches && callers.tree.search(matches));
  $('hits').textContent = found ? `${percent(found.share)} in ${count(found.n)} ${found.n === 1 ? 'frame' : 'frames'}` : state.search ? 'not a regular expression' : '';
}

// ---- what a person does ----------------------------------------------------------------------

/** Changes the state; `back` goes to what was before. */
function go(change, how = 'push') {
  Object.assign(state, change);
  history[how + 'State'](null, '', write());
  controls();
  bands();
  load();
}

/** What is looked at already changes its looks only. */
function mark(change) {
  Object.assign(state, change);
  history.replaceState(null, '', write());
}

const openFunction = fn => go({ view: 'sandwich', fn, zoom: '' });
const events = {
  hover: tip,
  select: detail,
  zoomed(flame, i) {
    if (flame !== graph) return;
    pathOf(flame, i);
    if (state.view !== 'flame') return;
    mark({ zoom: i ? flame.tree.mark(i) : '' });
    deepen(i);
  },
  open: (flame, i) => openFunction(flame.tree.text('name', flame.tree.frame[i])),
};

/** What the first answer had no room for below a node that is looked into. */
async function deepen(i) {
  const t = graph.tree, { signal } = cycle;
  if (state.view !== 'flame' || !i || t.grafted?.has(i) || t.leftOut(i) === 0) return;
  const { service, labels, under } = pathTo(t, i), mark = t.mark(i);
  const asked = { ...selection(rangeOf(), service), root: under, query: selector([...(service ? [['service_name', '=', service]] : []), ...labels]) };
  const answer = await get('flame', asked, signal).catch(error => (error.name === 'AbortError' || say(words(error)), null));
  const grafted = answer && graph.tree === t && graph.root === i && t.graft(i, answer);
  if (!grafted) return;
  const made = new Tree(grafted, t.title), at = made.find(mark), cursor = graph.cursor > 0 ? made.find(t.mark(graph.cursor)) : 0;
  made.grafted = new Set([at]);
  graph.set(made, at, cursor);
  search();
  detail(graph, graph.cursor);
  document.body.dataset.deepened = 1 + Number(document.body.dataset.deepened || 0);
}

/** Whose node it is, and the functions to it. */
function pathTo(t, i) {
  const path = t.path(i).slice(1), group = path.length > 0 && t.kind(path[0]) === 'group' ? t.text('name', t.frame[path.shift()]) : null;
  const under = path.map(k => t.text('name', t.frame[k]));
  if (group === '[no service.name]') return { under, service: '', labels: [...state.labels, ['service_name', '=', '']] };
  return { under, service: group ?? state.service, labels: state.labels };
}

const graph = new Flame($('graph'), events), callers = new Flame($('callers'), events, true);
const chart = new Chart($('chart'), $('legend'), {
  ranged(range, second) {
    const a = state.view === 'diff' && (second || document.querySelector('[name=side]:checked').value === 'a');
    const pinned = range && !state.end ? { end: Math.round(chart.to) } : {};
    go({ ...pinned, ...(a ? { aRange: range } : { range }), ...(range ? {} : { aRange: null }) });
  },
  chosen(label) {
    if (state.group === 'service') go({ service: label });
    else addLabel({ host: 'host_name', container: 'container_id', thread: 'thread_name' }[state.group], '=', label);
  },
  mayChoose: () => state.group !== 'runtime',
  said: text => ($('said').textContent = text),
});
const says = new Says($, {
  metric: (metric, series) => go({ metric, series, view: 'flame', zoom: '' }),
  trace: trace => go({ trace, view: 'flame', zoom: '' }),
  fn: openFunction,
});
const functions = new Functions($('rows'), $('more'), row => (state.by === 'function' ? openFunction(row.name) : go({ search: row.name, view: 'flame' })));

function addLabel(name, op, value) {
  go({ labels: [...state.labels.filter(l => l[0] !== name || l[1] !== op), [name, op, value]], zoom: '' });
}

async function copy(text, button) {
  try {
    await navigator.clipboard.writeText(text);
    say('');
  } catch { // not where the page is no secure context
    say(text);
  }
  const was = [...button.childNodes];
  if (!button.dataset.busy) {
    button.dataset.busy = 1;
    button.replaceChildren('copied');
    setTimeout(() => {
      button.replaceChildren(...was);
      delete button.dataset.busy;
    }, 1200);
  }
}

const changed = (id, change) => $(id).addEventListener('change', e => go(change(e.target.value)));
const clicked = (id, f) => $(id).addEventListener('click', e => f(e.currentTarget));
changed('service', service => ({ service, zoom: '' }));
changed('type', type => ({ type, zoom: '' }));
changed('span', ms => ({ span: Number(ms), range: null, aRange: null }));
changed('group', group => ({ group }));
changed('by', by => ({ by }));
changed('a-service', aService => ({ aService }));
for (const view of VIEWS) clicked('tab-' + view, () => go({ view, zoom: '' }));
document.querySelectorAll('[data-sort]').forEach(b => b.addEventListener('click', () => go({ sort: b.dataset.sort })));
const move = by => go({ end: by > 0 && (!state.end || state.end + by >= Date.now()) ? null : Math.round((state.end || now) + by), range: null, aRange: null });
const follow = () => go(state.end || state.range ? { end: null, range: null, aRange: null } : { end: Math.round(now) });
clicked('back', () => move(-state.span / 2));
clicked('on', () => move(state.span / 2));
clicked('live', follow);
clicked('link', button => copy(location.origin + location.pathname + write(now), button));
clicked('command', button => copy(`go tool pprof -http=: '${location.origin}/${url('pprof', selection())}'`, button));
clicked('keys', () => $('help').showModal());
clicked('do-sandwich', () => chosen && events.open(chosen.flame, chosen.i));
clicked('do-under', () => chosen && go({ ...pathTo(chosen.flame.tree, chosen.i), zoom: '' }));
clicked('do-rules', () => {
  if (!chosen) return;
  const { tree } = chosen.flame;
  go(state.view === 'flame' ? { ...pathTo(tree, chosen.i), fn: '', view: 'rules', zoom: '' } : { fn: tree.text('name', tree.frame[chosen.i]), view: 'rules' });
});
clicked('do-search', () => {
  if (!chosen) return;
  mark({ search: chosen.flame.tree.name(chosen.i) });
  $('search').value = state.search;
  search();
});
clicked('do-copy', button => chosen && copy(chosen.flame.tree.text('name', chosen.flame.tree.frame[chosen.i]), button));
$('search').addEventListener('input', e => {
  mark({ search: e.target.value });
  const began = performance.now();
  search();
  marks.search = performance.now() - began;
});

async function values() {
  const range = rangeOf().map(Math.round);
  const found = $('label').value === 'trace_id' ? [...new Set((await get('examples', { ...selection(range), limit: 100 }).catch(() => [])).map(x => x.trace_id))] : await get('labels', { from: range[0], to: range[1], type: state.type, name: $('label').value }).catch(() => []);
  $('values').replaceChildren(...found.slice(0, 500).map(v => h('option', { value: v })));
}
$('filter').addEventListener('toggle', async () => {
  if (!$('filter').open) return;
  const range = rangeOf().map(Math.round);
  const names = await get('labels', { from: range[0], to: range[1], type: state.type }).catch(error => (say(words(error)), []));
  fill($('label'), [...names, 'trace_id'].map(n => [n, n]), names.includes('host_name') ? 'host_name' : names[0] || '');
  values();
  $('value').focus();
});
$('label').addEventListener('change', values);
$('filter').querySelector('form').addEventListener('submit', e => {
  e.preventDefault();
  $('filter').open = false;
  if ($('label').value === 'trace_id') go({ trace: $('value').value.trim().toLowerCase(), zoom: '' });
  else addLabel($('label').value, $('operator').value, $('value').value);
  $('value').value = '';
});

const longer = by => {
  const at = SPANS.findIndex(s => s[1] >= state.span), to = SPANS[Math.max(0, Math.min(SPANS.length - 1, (at < 0 ? SPANS.length - 1 : at) + by))];
  go({ span: to[1], range: null, aRange: null });
};
const KEYS = {
  '/': () => $('search').select(), '?': () => $('help').showModal(), p: follow, '[': () => $('back').click(), ']': () => $('on').click(),
  f: () => $('tab-flame').click(), t: () => $('tab-functions').click(), x: () => $('tab-sandwich').click(), d: () => $('tab-diff').click(), r: () => $('tab-rules').click(),
  '+': () => longer(1), '-': () => longer(-1), Escape: () => (graph.root ? graph.zoom(0) : state.range && go({ range: null })),
};
addEventListener('keydown', e => {
  if (e.key === 'Escape') document.querySelectorAll('details[open]').forEach(d => (d.open = false));
  if (e.ctrlKey || e.metaKey || e.altKey || $('help').open) return;
  if (e.target.matches('input, select')) {
    if (e.key === 'Escape' && e.target.id === 'search') $('graph').focus();
    return;
  }
  if (KEYS[e.key]) {
    e.preventDefault();
    KEYS[e.key]();
  }
});
addEventListener('click', e => document.querySelectorAll('details[open]').forEach(d => (d.contains(e.target) ? 0 : (d.open = false))));
document.addEventListener('visibilitychange', () => !document.hidden && timer === -1 && load());
const arrive = () => {
  read(location.hash);
  controls();
  load();
};
addEventListener('popstate', arrive);
arrive();
