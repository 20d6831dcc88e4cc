// SPDX-License-Identifier: Apache-2.0
// Functions that are made of text, run for 20 ms and thrown away, each with a name of its own; says when each has begun.
const fs = require('fs');
for (let number = 1;; number++) {
    const name = `passing_${String(number).padStart(7, '0')}`;
    const passing = new Function('now', `return function ${name}(until) {
        let x = ${number};
        while (now() < until)
            for (let i = 0; i < 20000; i++)
                x = (x * 31 + i) % 1000003;
        return x;
    }`)(() => performance.now());
    fs.writeSync(1, `${number} ${Date.now()}000000\n`); // not by performance.timeOrigin, which two clocks make one after the other
    passing(performance.now() + 20);
    if (number % 50 === 0)
        global.gc();
}
