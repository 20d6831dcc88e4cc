// @pyroscope/nodejs pushes what it profiles of this process: client.js URL SECONDS
const Pyroscope = require('@pyroscope/nodejs');

Pyroscope.init({
  serverAddress: process.argv[2],
  appName: 'node.sdk',
  tags: { region: 'eu' },
  flushIntervalMs: 1000,
  wall: { collectCpuTime: true },
});
Pyroscope.start();
let stopping = false;
// On a busy machine the round that was due is begun after the stop, and the SDK throws in it.
process.on('uncaughtException', (e) => {
  if (!stopping || !/profiler is not started/.test(e.message)) throw e;
});
const end = Date.now() + 1000 * Number(process.argv[3]);
const kept = [];
function burn() {
  for (let t = Date.now(); Date.now() - t < 50; ) kept.push(Math.sqrt(kept.length % 1000));
  kept.length = 0;
  if (Date.now() < end) setTimeout(burn, 1);
  else if ((stopping = true)) Pyroscope.stop().then(() => process.exit(0));
}
burn();
