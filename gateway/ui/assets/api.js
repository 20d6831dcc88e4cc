// SPDX-License-Identifier: Apache-2.0
// The gateway's API (gateway/look/README.md) and what a view asks of it.

const BASE = 'api/v1/look/';
const AT_ONCE = 3; // the gateway runs four queries at a time: one is left to others
const TRIES = 10; // queries that were given up run on for a while

export class Refused extends Error {
  constructor(status, words) {
    super(words);
    this.status = status;
  }
}

let running = 0;
const waiting = [];

async function turn() {
  if (running >= AT_ONCE) await new Promise(go => waiting.push(go));
  else running++;
}

function next() {
  const go = waiting.shift();
  if (go) go();
  else running--;
}

const pause = ms => new Promise(done => setTimeout(done, ms));

async function words(answer) {
  const text = await answer.text();
  try {
    return JSON.parse(text).error || text;
  } catch {
    return text;
  }
}

/** parameters: {name: value or [values]}; those without a value are left out. */
export function url(path, parameters) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters || {}))
    for (const one of [value].flat()) if (one !== undefined && one !== null && one !== '') query.append(name, one);
  const text = query.toString();
  return BASE + path + (text ? '?' + text : '');
}

export async function get(path, parameters, signal) {
  for (let tries = 1; ; tries++) {
    await turn();
    let answer;
    try {
      if (signal?.aborted) throw new DOMException('', 'AbortError');
      answer = await fetch(url(path, parameters), { signal, headers: { accept: 'application/json' } });
      if (answer.ok) return await answer.json();
    } finally {
      next();
    }
    if (answer.status !== 429 || tries === TRIES) throw new Refused(answer.status, (await words(answer)).trim());
    await pause(300 * tries);
  }
}

const quoted = text => '"' + text.replace(/[\\"]/g, '\\$&').replaceAll('\n', '\\n') + '"';

/** Matchers [name, operator, value] as a selector. */
export const selector = matchers => '{' + matchers.map(([name, op, value]) => name + op + quoted(value)).join(',') + '}';

/**
 * One tree of several services' trees: below the root a row of services, else all programs melt into one main().
 * parts: [{service, answer}]; rest: what other services took.
 */
export function join(parts, rest, restName) {
  const strings = [], at = new Map(), frames = new Map();
  const frame = { name: [], lib: [], file: [], kind: [], inlined: [] };
  const node = { parent: [-1], frame: [-1], self: [0], total: [0], more: [0] };
  const text = s => {
    if (!at.has(s)) at.set(s, strings.push(s) - 1);
    return at.get(s);
  };
  const intern = (name, lib, file, kind, inlined) => {
    const key = [name, lib, file, kind, inlined].join('\0');
    if (!frames.has(key)) {
      frames.set(key, frame.name.length);
      frame.name.push(text(name));
      frame.lib.push(text(lib));
      frame.file.push(text(file));
      frame.kind.push(text(kind));
      frame.inlined.push(inlined);
    }
    return frames.get(key);
  };
  const add = (parent, f, self, total, more) => {
    node.self.push(self);
    node.total.push(total);
    node.more.push(more);
    node.frame.push(f);
    return node.parent.push(parent) - 1;
  };
  const whole = { seen: 0, kept: 0 };
  for (const { service, answer } of parts) {
    const { strings: s, frame: f, node: n } = answer;
    const own = f.name.map((_, i) => intern(s[f.name[i]], s[f.lib[i]], s[f.file[i]], s[f.kind[i]], f.inlined[i]));
    const places = [add(0, intern(service || '[no service.name]', '', '', 'group', 0), n.self[0], n.total[0], n.more[0])];
    for (let i = 1; i < n.parent.length; i++)
      places.push(add(places[n.parent[i]], own[n.frame[i]], n.self[i], n.total[i], n.more[i]));
    node.total[0] += n.total[0];
    whole.seen += answer.seen;
    whole.kept += answer.kept;
  }
  if (rest.value > 0) {
    node.total[0] += rest.value;
    add(0, intern(restName, '', '', 'group', 0), 0, rest.value, rest.value);
    whole.seen += rest.samples;
    whole.kept += rest.samples;
  }
  return { ...parts[0]?.answer, ...whole, p: whole.kept / (whole.seen || 1), strings, frame, node };
}
