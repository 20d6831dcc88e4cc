// What the page costs, in time of its main thread (trace events of Chromium: what it did, not what it waited for):
// page.mjs PLAYWRIGHT URL. Wall time stands beside it, which says what else the machine had to do.
import { createRequire } from 'node:module';

const [playwright, url] = process.argv.slice(2);
const { chromium } = createRequire(playwright + '/')('playwright-core');
const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu'] });
let page, cdp;
/** In a process of its own, which has shown something of ours before, so that it is there. */
async function open() {
  page = await (await browser.newContext({ viewport: { width: 1500, height: 900 } })).newPage();
  page.setDefaultTimeout(120e3);
  await page.goto(new URL('api/v1/look/status', url).href);
  cdp = await page.context().newCDPSession(page);
  await cdp.send('Performance.enable', { timeDomain: 'threadTicks' });
}
const busy = async () => (await cdp.send('Performance.getMetrics')).metrics.find(m => m.name === 'TaskDuration').value * 1e3;
const say = (what, ms, goal, wall) => console.log(`| ${what.padEnd(58)} | ${ms.toFixed(1).padStart(10)} ms ${`(${wall.toFixed(0)} by the clock)`.padEnd(20)} | ${goal.padEnd(10)} |`);
const median = all => all.sort((a, b) => a - b)[all.length >> 1];

async function times(n, what) {
  const cost = [], wall = [];
  for (let i = 0; i < n; i++) {
    const [from, began] = [await busy(), performance.now()];
    await what(i);
    await page.evaluate(() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done))));
    cost.push((await busy()) - from);
    wall.push(performance.now() - began);
  }
  return [median(cost), median(wall)];
}

console.log(`| ${''.padEnd(58)} | time of the main thread            | goal       |\n|---|---|---|`);
const firsts = [], walls = [];
for (let i = 0; i < 5; i++) {
  await page?.context().close();
  await open();
  const [from, began] = [await busy(), performance.now()];
  await page.goto(url);
  await page.waitForSelector('body[data-loads]');
  firsts.push((await busy()) - from);
  walls.push(performance.now() - began);
}
say('first flame graph', median(firsts), '<= 300', median(walls));
const service = await page.evaluate(() => [...document.querySelectorAll('#service option')].map(o => o.value).find(v => v));
await page.evaluate(s => { const e = document.getElementById('service'); delete document.body.dataset.loads; e.value = s; e.dispatchEvent(new Event('change')); }, service);
await page.waitForSelector('body[data-loads]');
const nodes = await page.evaluate(() => document.getElementById('graph').flame.tree.n);
const idle = await times(20, async () => {});
const zooms = await times(20, i => page.evaluate(k => { const { flame } = document.getElementById('graph'), row = flame.rows[Math.min(k % 6, flame.rows.length - 1)]; flame.zoom(row[row.length >> 1][0] < 0 ? 0 : k % 2 ? 0 : row[row.length >> 1][0]); }, i));
const box = await page.locator('#graph').boundingBox();
const moves = await times(20, i => page.mouse.move(box.x + 40 + i * 37, box.y + 10 + (i % 8) * 19));
const words = await times(10, i => page.fill('#search', 'memset'.slice(0, 1 + (i % 6))));
for (const [what, [cost, wall]] of [['zoom', zooms], ['pointing at a frame', moves], ['a letter of a search', words]]) say(`${what}, ${nodes} nodes`, Math.max(0, cost - idle[0]), what.startsWith('a letter') ? '' : '<= 16', wall);
await browser.close();
