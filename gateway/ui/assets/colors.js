// SPDX-License-Identifier: Apache-2.0
// Colours that people with any colour vision tell apart: Paul Tol's "light" scheme, made for cells with dark text in
// them (personal.sron.nl/~pault, "Qualitative colour schemes"), and three of ours for the rarest runtimes.

export const KINDS = {
  kernel: '#ee8866', native: '#77aadd', go: '#44bb99', jvm: '#eedd88', cpython: '#bbcc33', v8js: '#ffaabb',
  dotnet: '#99ddff', ruby: '#aaaa00', php: '#c9b3f2', perl: '#d9b48f', beam: '#e6c3e6', rust: '#77aadd',
};
export const OTHER = '#c8ccd2';
const SERIES = ['#77aadd', '#ee8866', '#44bb99', '#eedd88', '#ffaabb', '#99ddff', '#bbcc33', '#aaaa00'];

export const KIND_WORDS = {
  kernel: 'kernel', native: 'native', go: 'Go', jvm: 'JVM', cpython: 'Python', v8js: 'JavaScript', dotnet: '.NET',
  ruby: 'Ruby', php: 'PHP', perl: 'Perl', beam: 'BEAM', rust: 'Rust', group: 'group',
};

export const kindColor = kind => KINDS[kind] || OTHER;

/** Of the nth series of a chart: a runtime has its own. */
export const seriesColor = (label, n) => KINDS[label] || SERIES[n % SERIES.length];

/** #rrggbb with each part moved by `by`, to tell neighbours of one kind apart. */
export function shade(color, by) {
  const part = at => Math.max(0, Math.min(255, parseInt(color.slice(at, at + 2), 16) + by)).toString(16).padStart(2, '0');
  return '#' + part(1) + part(3) + part(5);
}

export function mix(a, b, share) {
  const part = at => Math.round(parseInt(a.slice(at, at + 2), 16) * (1 - share) + parseInt(b.slice(at, at + 2), 16) * share).toString(16).padStart(2, '0');
  return '#' + part(1) + part(3) + part(5);
}

// Less is blue, more is orange: the pair that no common colour blindness confuses.
const SAME = '#d4d7dc', LESS = '#3d8bd4', MORE = '#ee7733';

/** By how much a share grew (> 0) or shrank, from -1 to 1. */
export const changeColor = change => (change === 0 ? SAME : mix(SAME, change < 0 ? LESS : MORE, Math.min(1, 0.25 + 1.5 * Math.abs(change))));
