// A load in JavaScript: JSON, sorting, regular expressions, recursion.
'use strict';

function build(depth, width) {
    return { name: `item ${depth}`, parts: depth ? Array.from({ length: width }, () => build(depth - 1, width)) : [] };
}

function names(item) {
    return [item.name].concat(...item.parts.map(names));
}

for (;;) {
    const back = JSON.parse(JSON.stringify(build(5, 4)));
    names(back).map((name) => name.replace(/\d+/, (n) => String(9 - n))).sort();
}
