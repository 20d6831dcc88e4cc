// What a person does with the page, asserted by texts and drawn rectangles: person.mjs PLAYWRIGHT URL [PICTURE]. Prints a line of
// JSON for each: {name, error}. With PICTURE only that is made.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';

const [playwright, url, picture] = process.argv.slice(2);
const { chromium } = createRequire(playwright + '/')('playwright-core');
const PATIENCE = 120e3;
const browser = await chromium.launch({
  executablePath: '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
});

const complaints = [];
const resting = []; // pages of the usual kind: a new one costs a process
async function open(hash = '', context = null) {
  const page = (!context && resting.pop()) || (await begin(context));
  await page.goto('about:blank');
  await page.goto(url + hash);
  await page.waitForSelector('body[data-loads]');
  return page;
}

let usual;
async function begin(context) {
  const c = (!context && usual) || (await browser.newContext({ viewport: { width: 1120, height: 700 }, ...context }));
  c.setDefaultTimeout(PATIENCE);
  if (!context) usual = c;
  const page = await c.newPage();
  page.on('pageerror', e => complaints.push(String(e)));
  // A busy gateway says 429, and the page asks again.
  page.on('console', m => m.type() === 'error' && !m.text().includes('status of 429') && complaints.push(m.text()));
  page.on('dialog', d => complaints.push('a dialog: ' + d.message()));
  return page;
}

const leave = page => (page.context() === usual ? resting.push(page) : page.context().close());

/** Does it, and waits until what it asks for is there. */
async function does(page, what) {
  const before = await page.evaluate(() => document.body.dataset.loads);
  await what();
  await page.waitForFunction(n => document.body.dataset.loads !== n && document.body.ariaBusy === 'false', before);
}

/** Rectangles of a graph: {name, x, y, width, share, kind} in pixels of the page, as the page's own arithmetic has them. */
const rectangles = (page, id = 'graph') => page.evaluate(which => {
  const f = document.getElementById(which).flame, box = f.box.getBoundingClientRect();
  return f.rows.flatMap((row, d) => row.filter(c => c[0] >= 0).map(([i, x, w]) => (
    { name: f.tree.name(i), kind: f.tree.kind(i), row: d, x: box.left + x * f.width, y: box.top + f.y(d), width: w * f.width, share: f.tree.weight(i), node: i })));
}, id);

/** What is painted at a place of a graph: [r, g, b]. */
const painted = (page, x, y, id = 'graph') => page.evaluate(([which, px, py]) => {
  const f = document.getElementById(which).flame, box = f.box.getBoundingClientRect(), ratio = devicePixelRatio || 1;
  return [...f.canvas.getContext('2d').getImageData((px - box.left) * ratio, (py - box.top) * ratio, 1, 1).data].slice(0, 3);
}, [id, x, y]);

const text = (page, id) => page.textContent('#' + id);
const hashOf = page => page.evaluate(() => new URLSearchParams(location.hash.slice(1)));
const param = (page, name) => page.evaluate(n => new URLSearchParams(location.hash.slice(1)).get(n), name);
const samples = async page => Number((await text(page, 'note')).match(/([\d\u2009]+) samples/)[1].replaceAll('\u2009', ''));

/** Services with a plain name, the busiest first. */
const services = page => page.evaluate(() => [...document.querySelectorAll('#service option')].map(o => o.value).filter(v => /^\w/.test(v) && !v.startsWith('evil')));
const busiest = async page => (await services(page))[0];

const tests = {
  async opens_with_the_flame_graph_of_all_services() {
    const page = await open();
    const drawn = await rectangles(page);
    assert.equal(drawn[0].name, 'all');
    const groups = drawn.filter(r => r.row === 1);
    assert.ok(groups.length >= 3 && drawn.length > 50, JSON.stringify(drawn.slice(0, 9)));
    // Rows are whole: children lie inside their parent, and services fill the width.
    assert.ok(Math.abs(groups.reduce((n, r) => n + r.width, 0) - drawn[0].width) < 2);
    for (const r of groups) assert.ok(r.width > 0 && r.x >= drawn[0].x - 0.5 && r.x + r.width <= drawn[0].x + drawn[0].width + 0.5);
    const colors = new Set();
    for (const r of drawn.filter(d => d.width > 30 && d.y < 500)) colors.add((await painted(page, r.x + r.width - 4, r.y + 3)).join());
    assert.ok(colors.size >= 3, 'each runtime has its colour: ' + [...colors]);
    assert.match(await text(page, 'note'), /[\d\u2009]+ samples ±/);
    assert.ok((await page.locator('#rows tr').count()) > 10);
    assert.match(await text(page, 'legend'), /cores.*(native|kernel|Go)/s);
    await leave(page);
  },

  async points_zooms_and_comes_back_by_the_address() {
    const page = await open();
    const service = await busiest(page);
    await does(page, () => page.selectOption('#service', service));
    const drawn = await rectangles(page);
    assert.equal(drawn[0].name, service);
    const frame = drawn.find(r => r.row >= 2 && r.width > 40 && r.width < drawn[0].width * 0.95);
    await page.mouse.move(frame.x + 8, frame.y + 8);
    await page.waitForSelector('#tip:not([hidden])');
    const tip = await text(page, 'tip');
    assert.ok(tip.startsWith(frame.name) && /total .* \(.*%\), self /.test(tip), tip);
    await page.mouse.click(frame.x + 8, frame.y + 8);
    const zoomed = (await rectangles(page)).find(r => r.node === frame.node);
    assert.ok(Math.abs(zoomed.width - drawn[0].width) < 1, 'it is as wide as there is room');
    assert.ok((await text(page, 'path')).endsWith(frame.name));
    assert.ok((await text(page, 'said')).startsWith(frame.name + ': total '));
    const other = await open(await page.evaluate(() => location.hash));
    assert.ok((await text(other, 'path')).endsWith(frame.name), 'a link shows somebody else the same');
    await leave(other);
    await page.keyboard.press('Escape');
    assert.equal(await text(page, 'path'), service);
    await does(page, () => page.goBack());
    assert.equal((await rectangles(page))[0].name, 'all');
    await leave(page);
  },

  async shows_something_whatever_time_an_address_says() {
    for (const hash of ['#end=1e300', '#end=5', '#end=-7', '#end=1e13', '#range=1e300-2e300', '#range=0.2-1.7&view=diff', '#range=7', '#end=1&view=diff']) {
      const page = await open(hash); // it has loaded, where the gateway took what it was asked
      await leave(page);
    }
  },

  async searches_with_a_share() {
    const page = await open();
    const drawn = await rectangles(page);
    const frame = drawn.filter(r => r.row >= 2 && /^[\w.]{5,}$/.test(r.name)).sort((a, b) => b.share - a.share)[0];
    await page.keyboard.press('/');
    await page.keyboard.type(frame.name);
    // Counted once on a path, wherever it is; here again from what the page has.
    const expected = await page.evaluate(name => {
      const { tree } = document.getElementById('graph').flame, low = name.toLowerCase(), has = i => (tree.name(i) + '\n' + tree.lib(i)).toLowerCase().includes(low);
      let sum = 0;
      for (let i = 1; i < tree.n; i++) if (has(i) && !tree.path(i).slice(1, -1).some(has)) sum += tree.total[i];
      return sum / tree.total[0];
    }, frame.name);
    const shown = parseFloat(await text(page, 'hits')) / 100;
    assert.ok(expected > 0 && Math.abs(shown - expected) < 0.001, `${shown} ${expected}`);
    const [hit, miss] = [frame, drawn.find(r => r.row >= 2 && r.width > 30 && !r.name.includes(frame.name) && r.kind === frame.kind)];
    if (miss) assert.notDeepEqual(await painted(page, hit.x + 2, hit.y + 3), await painted(page, miss.x + 2, miss.y + 3));
    for (const row of await page.locator('#rows tr').allTextContents()) assert.ok(row.toLowerCase().includes(frame.name.toLowerCase()));
    assert.equal(await param(page, 'search'), frame.name);
    await page.fill('#search', '/(/');
    assert.equal(await text(page, 'hits'), 'not a regular expression');
    await page.fill('#search', '/^no such function$/');
    assert.match(await text(page, 'hits'), /^0.% in 0 frames$/);
    await leave(page);
  },

  async drags_a_range_in_the_chart() {
    const page = await open();
    const all = await samples(page), box = await page.locator('#chart').boundingBox();
    await page.mouse.move(box.x + box.width * 0.25, box.y + 40);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.999, box.y + 60, { steps: 4 });
    await does(page, () => page.mouse.up());
    const [from, to] = (await param(page, 'range')).split('-').map(Number);
    assert.ok(to > from && from % 10000 === 0, `${from} ${to}`);
    assert.match(await text(page, 'chips'), /\d\d:\d\d:\d\d – \d\d:\d\d:\d\d/);
    assert.ok((await samples(page)) <= all);
    await does(page, () => page.keyboard.press('Escape'));
    assert.equal(await param(page, 'range'), null);
    await leave(page);
  },

  async reads_functions_then_callers_and_callees() {
    const page = await open();
    await does(page, () => page.keyboard.press('t'));
    assert.ok(!(await page.isVisible('#graphs')));
    await does(page, () => page.click('[data-sort=total]'));
    const rows = await page.locator('#rows tr').evaluateAll(all => all.map(tr => ({ name: tr.querySelector('button').textContent, total: parseFloat(tr.cells[2].textContent.split('\u2003')[1]) })));
    assert.ok(rows.length > 10 && rows.every((r, i) => i === 0 || !(r.total > rows[i - 1].total)), JSON.stringify(rows.slice(0, 5)));
    const at = rows.findIndex(r => /^[\w.]{4,}$/.test(r.name));
    await does(page, () => page.click(`#rows tr:nth-child(${at + 1}) button`));
    assert.equal(await param(page, 'fn'), rows[at].name);
    const [up, down] = [await rectangles(page, 'callers'), await rectangles(page)];
    assert.ok(up[0].name === rows[at].name && down[0].name === rows[at].name);
    assert.ok(up.every(r => r.y <= up[0].y + 0.5) && down.every(r => r.y >= down[0].y - 0.5), 'callers above, callees below');
    assert.ok(up.length + down.length > 2);
    await leave(page);
  },

  async compares_two_times_and_two_services() {
    const page = await open();
    await does(page, () => page.keyboard.press('d'));
    assert.match(await text(page, 'note'), /A .* samples · B .* samples/);
    assert.deepEqual(await page.evaluate(() => Object.keys(document.getElementById('chart').chart.ranges)), ['A', 'B']);
    const [b, a] = await services(page);
    await does(page, () => page.selectOption('#service', b));
    await does(page, () => page.selectOption('#a-service', a));
    assert.equal(await param(page, 'aservice'), a);
    const changes = await page.evaluate(() => {
      const f = document.getElementById('graph').flame, t = f.tree;
      return f.rows.flat().filter(c => c[0] > 0).map(([i]) => ({ change: t.change(i), a: t.total[i] / t.sumA, b: t.totalB[i] / t.sumB }));
    });
    const gone = changes.find(c => c.change === -1), come = changes.find(c => c.change === 1);
    assert.ok(gone && gone.b === 0 && gone.a > 0 && come && come.a === 0 && come.b > 0, JSON.stringify(changes.slice(0, 9)));
    const drawn = await rectangles(page), f = id => drawn.find(r => r.width > 12 && r.row > 0 && r.node === id);
    const [less, more] = await page.evaluate(() => [-1, 1].map(sign => { const g = document.getElementById('graph').flame; return g.rows.flat().find(c => c[0] > 0 && c[2] * g.width > 12 && g.tree.change(c[0]) === sign)?.[0]; }));
    const [l, m] = [f(less), f(more)];
    if (l && m) {
      const [blue, orange] = [await painted(page, l.x + 2, l.y + 3), await painted(page, m.x + 2, m.y + 3)];
      assert.ok(blue[2] > blue[0] && orange[0] > orange[2], `${blue} ${orange}`);
    }
    await leave(page);
  },

  async filters_by_a_label() {
    const page = await open();
    const all = await samples(page);
    await page.click('#filter summary');
    await page.waitForFunction(() => document.querySelectorAll('#label option').length > 1);
    await page.selectOption('#label', 'service_name');
    await page.selectOption('#operator', '!=');
    await page.fill('#value', await busiest(page));
    await does(page, () => page.click('#filter form button'));
    const rest = await samples(page);
    assert.ok(rest > 0 && rest < all, `${rest} of ${all}`);
    assert.match(await text(page, 'chips'), /service_name != /);
    await does(page, () => page.click('#chips button'));
    assert.equal(await text(page, 'chips'), '');
    assert.ok((await samples(page)) > rest);
    await leave(page);
  },

  async tells_what_the_rules_count_of_a_frame_and_shows_the_stacks_of_a_metric() {
    const page = await open();
    await does(page, () => page.selectOption('#service', 'go'));
    const drawn = await rectangles(page), frame = drawn.find(r => r.row >= 2 && r.width > 60 && r.width < drawn[0].width * 0.9 && /^[\w.]+$/.test(r.name));
    const total = await page.evaluate(i => document.getElementById('graph').flame.tree.total[i], frame.node);
    await page.mouse.click(frame.x + 8, frame.y + 8);
    await does(page, () => page.click('#do-rules'));
    assert.match(await text(page, 'chips'), new RegExp('below ' + frame.name.replaceAll('.', '\\.')));
    const rows = await page.locator('#counted tr').evaluateAll(all => all.map(tr => ({ name: tr.querySelector('button').textContent, why: tr.cells[0].textContent, share: parseFloat(tr.cells[1].textContent) })));
    const cpu = rows.filter(r => r.name.startsWith('profile.cpu.time{'));
    assert.ok(cpu.length > 0 && cpu.every(r => /cpu\.rules:\d+/.test(r.why) && /table mode, row \d/.test(r.why)), JSON.stringify(rows.slice(0, 4)));
    assert.ok(Math.abs(cpu.reduce((n, r) => n + r.share, 0) - 100) < 1, 'every stack is CPU time: ' + JSON.stringify(cpu));
    const [said] = await page.evaluate(async () => (await (await fetch('api/v1/look/rules?query=' + encodeURIComponent('{service_name="go"}') + '&' + new URLSearchParams(new URLSearchParams(location.hash.slice(1)).getAll('under').map(u => ['root', u])))).json()).rows.filter(r => r.metric === 'profile.cpu.time'));
    assert.ok(said.value <= total && cpu[0].name.includes(`"${said.labels.mode}"`), `${JSON.stringify(said)} ${total}`);
    await does(page, () => page.locator('#counted tr button', { hasText: cpu[0].name }).first().click());
    assert.match(await text(page, 'chips'), /counted by profile\.cpu\.time\{/);
    const [shown, there] = await page.evaluate(() => [document.getElementById('graph').flame.tree.total[0], document.body.className]);
    assert.deepEqual([shown, there], [said.value, 'flame']);
    assert.ok((await rectangles(page)).some(r => r.name === frame.name));
    await does(page, () => page.keyboard.press('r'));
    const reason = page.locator('#counted small button').first(), by = await reason.textContent();
    await does(page, () => reason.click());
    assert.deepEqual([await param(page, 'view'), await param(page, 'fn')], ['sandwich', by]);
    await does(page, () => page.keyboard.press('r'));
    assert.match(await text(page, 'chips'), /with /);
    await leave(page);
  },

  async goes_from_a_trace_to_its_stacks_and_back() {
    const page = await open('#service=shop');
    await does(page, () => page.keyboard.press('r'));
    const traces = await page.locator('#traces button').allTextContents();
    assert.deepEqual([...new Set(traces)].sort(), ['0af7651916cd43dd8448eb211c80319c', '4bf92f3577b34da6a3ce929d0e0e4736']);
    await does(page, () => page.locator('#traces button', { hasText: '4bf9' }).first().click());
    assert.match(await text(page, 'chips'), /trace 4bf92f35/);
    assert.deepEqual((await rectangles(page)).map(r => r.name), ['shop', 'serve', 'pay']);
    assert.equal(await samples(page), 1);
    await does(page, () => page.locator('#chips button').click());
    assert.deepEqual(new Set((await rectangles(page)).map(r => r.name)), new Set(['shop', 'serve', 'pay', 'list']));
    await page.click('#filter summary');
    await page.waitForFunction(() => [...document.querySelectorAll('#label option')].some(o => o.value === 'trace_id'));
    await page.selectOption('#label', 'trace_id');
    await page.fill('#value', '0AF7651916CD43DD8448EB211C80319C');
    await does(page, () => page.click('#filter form button'));
    assert.deepEqual((await rectangles(page)).map(r => r.name), ['shop', 'serve', 'list']);
    await leave(page);
  },

  async asks_for_what_was_left_out_below_a_frame() {
    const page = await open();
    const find = () => page.evaluate(() => {
      const { tree, rows } = document.getElementById('graph').flame;
      return rows[2].filter(c => c[0] > 0 && tree.leftOut(c[0]) > 0).map(([i]) => ({ i, left: tree.leftOut(i), mark: tree.mark(i) }))[0];
    });
    const was = await find();
    assert.ok(was, 'the answer left something out');
    const place = (await rectangles(page)).find(r => r.node === was.i);
    await page.mouse.click(place.x + place.width / 2, place.y + 8);
    await page.waitForFunction(() => document.body.dataset.deepened);
    const now = await page.evaluate(() => { const { tree, root } = document.getElementById('graph').flame; return { left: tree.leftOut(root), mark: tree.mark(root), total: tree.total[root] }; });
    assert.ok(now.left < was.left && now.mark === was.mark, JSON.stringify([was, now]));
    const drawn = await rectangles(page), root = drawn.find(r => r.row === 2);
    for (const r of drawn.filter(d => d.row > 2)) assert.ok(r.x >= root.x - 0.5 && r.x + r.width <= root.x + root.width + 0.5, 'rows are whole');
    const samples = async () => Number((await text(page, 'note')).match(/· ([\d,.\s]+) samples/)[1].replace(/\D/g, '')), all = await samples();
    await does(page, () => page.click('#do-under'));
    assert.match(await text(page, 'chips'), /below /);
    assert.ok(await samples() > 0 && await samples() < all, 'they are those below it');
    await leave(page);
  },

  async works_without_a_mouse() {
    const page = await open();
    await page.focus('#graph');
    const said = [];
    for (const key of ['ArrowDown', 'ArrowDown', 'ArrowRight', 'ArrowUp', 'Enter']) {
      await page.keyboard.press(key);
      said.push(await text(page, 'said'));
    }
    assert.ok(said.every(s => /: total .*%/.test(s)) && new Set(said).size >= 3, said.join('\n'));
    assert.notEqual(await text(page, 'path'), 'all');
    // Whoever cannot see the canvas has a table, and everything has a name.
    const tree = await page.locator('body').ariaSnapshot();
    for (const part of ['heading "profgate"', 'combobox "Service"', 'tab "Flame graph" [selected]', 'searchbox "search', 'table', 'columnheader', 'cell']) assert.ok(tree.includes(part), part + '\n' + tree);
    assert.ok(!/button\s*$/m.test(tree.replace(/ \[.*?\]/g, '')), 'a button without a name\n' + tree);
    await page.focus('#chart');
    for (const key of ['ArrowLeft', 'ArrowLeft', ' ', 'ArrowLeft']) await page.keyboard.press(key);
    await does(page, () => page.keyboard.press(' '));
    assert.ok(await param(page, 'range'));
    assert.match(await page.getAttribute('#chart', 'aria-label'), /Over time: .* on average, most/);
    await leave(page);
  },

  async shows_hostile_names_as_text() {
    const page = await open();
    const option = await page.evaluate(() => [...document.querySelectorAll('#service option')].find(o => o.value.startsWith('evil')).textContent);
    assert.ok(option.startsWith('evil\\u{202e}gpj.exe\u2407'), option);
    await does(page, () => page.selectOption('#service', { label: option }));
    const names = (await rectangles(page)).map(r => r.name);
    assert.ok(names.includes('<img src=x onerror=alert(1)>') && names.some(n => n.includes('\u241b[31m')), names.join());
    assert.equal(await page.locator('img, iframe, main script, main a').count(), 0);
    assert.ok(!/[\u202e\u0007\u001b]/.test(await page.evaluate(() => document.body.innerText)));
    const refused = await page.evaluate(() => { try { document.body.innerHTML = '<b>x</b>'; return 'taken'; } catch (e) { return e.name; } });
    assert.equal(refused, 'TypeError', 'trusted types');
    complaints.splice(0, complaints.length, ...complaints.filter(c => !/TrustedHTML/.test(c)));
    await leave(page);
  },

  async is_dark_where_the_system_is() {
    const look = async scheme => {
      const page = await open('', { colorScheme: scheme }), drawn = (await rectangles(page)).find(r => r.row === 2 && r.width > 20);
      const found = [await page.evaluate(() => getComputedStyle(document.body).backgroundColor), await painted(page, drawn.x + 2, drawn.y + 3)];
      await leave(page);
      return found;
    };
    const [[page, frame], [night, shaded]] = [await look('light'), await look('dark')];
    assert.equal(page, 'rgb(255, 255, 255)');
    assert.ok(night.match(/\d+/g).every(v => v < 40), night);
    assert.ok(shaded.reduce((a, b) => a + b) < frame.reduce((a, b) => a + b));
  },

  async fits_a_phone() {
    const page = await open('', { viewport: { width: 360, height: 740 }, deviceScaleFactor: 2, isMobile: true, hasTouch: true });
    assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= 360);
    const frame = (await rectangles(page)).find(r => r.row === 1);
    await page.touchscreen.tap(frame.x + 10, frame.y + 8);
    await page.waitForFunction(name => document.getElementById('path').textContent.endsWith(name), frame.name);
    await leave(page);
  },

  async gives_a_link_and_files() {
    const page = await open('', { permissions: ['clipboard-read', 'clipboard-write'] });
    await page.click('#link');
    const link = await page.evaluate(() => navigator.clipboard.readText());
    assert.match(link, /#.*end=\d{13}/, 'the time stands still for who comes later');
    for (const [id, begin] of [['pprof', [0x1f, 0x8b]], ['folded', null]]) {
      const answer = await page.request.get(await page.evaluate(i => document.getElementById(i).href, id)), body = await answer.body();
      assert.equal(answer.status(), 200);
      if (begin) assert.deepEqual([...body.subarray(0, 2)], begin);
      else assert.match(body.toString(), /^.+;.+ \d+$/m);
    }
    await leave(page);
  },
};

async function paint() {
  const page = await open(picture.split('#')[1] ? '#' + picture.split('#')[1] : '', { viewport: { width: 1120, height: 640 } });
  await page.screenshot({ path: picture.split('#')[0] });
}

if (picture) await paint();
else
  for (const [name, run] of Object.entries(tests)) {
    complaints.length = 0;
    let error = null;
    try {
      await run();
      assert.deepEqual(complaints, []);
    } catch (e) {
      error = String(e.stack || e).slice(0, 3000);
      resting.length = 0; // what it left is in no known state
      usual = undefined;
    }
    console.log(JSON.stringify({ name, error }));
  }
await browser.close();
