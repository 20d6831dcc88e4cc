"use strict";
// A program whose stacks are known: every chain of functions that can be on its stack is in CHAINS, root first. Recursion, methods,
// getters, closures, callbacks out of builtins (sort, map, JSON, replace, a Proxy) and out of C++, generators, async functions,
// exceptions, eval, native work; `spin` is where the time goes. With --chains they are printed, as JSON.
const crypto = require("crypto");
const { Worker: Thread, isMainThread } = require("worker_threads");

function spin(n) {
  let x = 0;
  for (let i = 0; i < n; i++) {
    x = (x + i * i % 7) | 0;
  }
  return x;
}

function recurse(depth) {
  if (depth === 0) return spin(2000);
  return recurse(depth - 1) + 1;
}

function deep(depth) {
  return depth === 0 ? spin(20000) : deep(depth - 1) + 1;
}

class Base {
  constructor() {
    this.x = spin(600);
  }
}

class Worker extends Base {
  constructor() {
    super();
    this.y = spin(300);
  }
  method() {
    return recurse(8) + 1;
  }
  static make() {
    return spin(700) + 1;
  }
  get value() {
    return spin(700) + 1;
  }
  set value(x) {
    spin(x);
  }
  #hidden() {
    return spin(500) + 1;
  }
  open() {
    return this.#hidden() + 1;
  }
  valueOf() {
    return spin(400);
  }
  *[Symbol.iterator]() {
    yield spin(400);
    yield* inner();
  }
  toJSON() {
    return spin(500);
  }
}

function* inner() {
  yield spin(500);
}

function construct() {
  return new Worker().x + 1;
}

const worker = new Worker();

function property() {
  worker.value = 500;
  return worker.value + 1;
}

function iterate() {
  let sum = 0;
  for (const x of worker) sum += x;
  return sum;
}

function convert() {
  return worker + 1;
}

function sort() {
  return [5, 4, 3, 2, 1, 6].sort(function compare(a, b) {
    spin(150);
    return a - b;
  });
}

function map() {
  return [400, 500].map((n) => spin(n) + 1);
}

function reduce() {
  return [1, 2, 3].reduce(function add(a, b) {
    return a + b + spin(300);
  }, 0);
}

function parse() {
  return JSON.parse('{"a": [1, 2]}', function revive(key, value) {
    spin(200);
    return value;
  });
}

function stringify() {
  return JSON.stringify(worker);
}

function replace() {
  return "abc".replace(/[a-c]/g, function letter(found) {
    return String(spin(300));
  });
}

const proxy = new Proxy({}, { get: function trap() { return spin(700); } });
function reflect() {
  return proxy.anything + 1;
}

function closure() {
  const twice = (f) => f(600) + f(300);
  return twice((n) => spin(n) + 1);
}

const bound = function original(n) {
  return spin(n) + 1;
}.bind(null, 800);
function call() {
  return bound() + 1;
}

const table = {};
table.entry = function () {
  return spin(700) + 1;
};
function member() {
  return table.entry() + 1;
}

function thrower() {
  try {
    return spin(600);
  } finally {
    throw new RangeError("as wanted");
  }
}

function catcher() {
  try {
    thrower();
  } catch (e) {
    return spin(500);
  }
}

function evaluate() {
  return eval("spin(500) + 1");
}

const made = new Function("spin", "return spin(700) + 1;");
function makeAndCall() {
  return made(spin) + 1;
}

function hash() {
  return crypto.pbkdf2Sync("secret", "salt", 60, 32, "sha256").length;
}

function Größe() {
  return spin(800) + 1;
}

async function later() {
  spin(400);
  await null;
  spin(700);
  return await last();
}

async function last() {
  await undefined;
  return spin(700);
}

function settle() {
  return new Promise(function executor(resolve) {
    spin(500);
    resolve(1);
  }).then(function fulfilled() {
    return spin(700);
  });
}

function work() {
  worker.method();
  Worker.make();
  construct();
  property();
  worker.open();
  convert();
  iterate();
  sort();
  map();
  reduce();
  parse();
  stringify();
  replace();
  reflect();
  closure();
  call();
  member();
  catcher();
  evaluate();
  makeAndCall();
  hash();
  Größe();
  deep(150);
}

// Each chain that ends in `spin`, from `run` on; what is a prefix of one can be seen, too. "…": anything may follow.
const WORK = [
  ["method", ...Array(9).fill("recurse"), "spin"],
  ["make", "spin"],
  ["construct", "Worker", "Base", "spin"],
  ["construct", "Worker", "spin"],
  ["property", "set value", "spin"],
  ["property", "get value", "spin"],
  ["open", "#hidden", "spin"],
  ["convert", "valueOf", "spin"],
  ["iterate", "<anonymous>", "spin"],
  ["iterate", "<anonymous>", "inner", "spin"],
  ["sort", "compare", "spin"],
  ["map", "<anonymous>", "spin"],
  ["reduce", "add", "spin"],
  ["parse", "revive", "spin"],
  ["stringify", "toJSON", "spin"],
  ["replace", "letter", "spin"],
  ["reflect", "trap", "spin"],
  ["closure", "twice", "<anonymous>", "spin"],
  ["call", "original", "spin"],
  ["member", "table.entry", "spin"],
  ["catcher", "thrower", "spin"],
  ["catcher", "spin"],
  ["evaluate", "<anonymous>", "spin"],
  ["makeAndCall", "<anonymous>", "spin"],
  ["hash", "…"],
  ["catcher", "thrower", "…"],
  ["Größe", "spin"],
  [...Array(151).fill("deep"), "spin"],
];
const CHAINS = {
  run: WORK.map((chain) => ["work", ...chain]).concat([["later", "spin"], ["settle", "executor", "spin"], ["cpuUsage", "…"], ["get", "…"]]),
  // By the queue of microtasks, below which there is no function.
  alone: [["later", "spin"], ["later", "last"], ["last", "spin"], ["fulfilled", "spin"]],
};

async function run(seconds) {
  const end = process.cpuUsage().user + seconds * 1e6;
  while (process.cpuUsage().user < end) {
    work();
    await later();
    await settle();
  }
}

if (process.argv[2] === "--chains") {
  process.stdout.write(JSON.stringify(CHAINS));
} else {
  if (isMainThread) for (let i = 1; i < Number(process.argv[3] || 1); i++) new Thread(__filename, { argv: process.argv.slice(2) });
  run(Number(process.argv[2]));
}
