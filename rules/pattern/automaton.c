/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Aho-Corasick, closed: every literal is planted in a trie of byte classes; then, breadth first, each node
 * gets its failure link (the longest proper suffix of what was read that begins a literal too), and every
 * edge that is missing is taken from the node of that link, which is complete by then. So a search never
 * follows a failure link: one load a byte. What ends at a node is a list of its own literals; `suffix` leads
 * to the next node on the failure path that has any, skipping those that have none.
 *
 * The table is nodes × classes: bytes that stand in no literal share class 0, so it is as wide as the
 * literals' alphabet and not 256.
 */
#include "rules/pattern/automaton.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/macros.h"

static void choose_classes(struct automaton *a, const struct automaton_literal *literals, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        for (size_t j = 0; j < literals[i].text.n; j++) {
            uint16_t *class = &a->class_of[automaton_fold(literals[i].text.p[j])];
            if (*class == 0)
                *class = (uint16_t)a->n_classes++;
        }
    for (int c = 'A'; c <= 'Z'; c++)
        a->class_of[c] = a->class_of[automaton_fold((uint8_t)c)];
}

static void plant(struct automaton *a, const struct automaton_literal *literal, uint32_t index)
{
    uint32_t node = 0;
    for (size_t j = 0; j < literal->text.n; j++) {
        uint32_t *next = &a->next[(size_t)node * a->n_classes + a->class_of[literal->text.p[j]]];
        if (*next == 0)
            *next = a->n_nodes++;
        node = *next;
    }
    a->outputs[index] = (struct automaton_output){literal->tag, (uint32_t)literal->text.n, a->output[node]};
    a->output[node] = index;
}

/* Breadth first: a node's failure link is known before its children are, so each edge becomes final at once.
 */
static int close_edges(struct automaton *a)
{
    autofree uint32_t *fail = calloc(a->n_nodes, sizeof *fail);
    autofree uint32_t *queue = malloc(a->n_nodes * sizeof *queue);
    if (!fail || !queue)
        return -ENOMEM;
    uint32_t head = 0, tail = 0;
    queue[tail++] = 0;
    while (head < tail) {
        uint32_t node = queue[head++];
        uint32_t *edges = &a->next[(size_t)node * a->n_classes];
        const uint32_t *under = &a->next[(size_t)fail[node] * a->n_classes];
        a->suffix[node] = a->output[fail[node]] != AUTOMATON_END ? fail[node] : a->suffix[fail[node]];
        for (uint32_t c = 0; c < a->n_classes; c++) {
            if (edges[c] == 0) {
                edges[c] = node == 0 ? 0 : under[c];
                continue;
            }
            fail[edges[c]] = node == 0 ? 0 : under[c];
            queue[tail++] = edges[c];
        }
    }
    return 0;
}

/* Nodes become places of rows, and say whether a literal ends there: nearly always none does, and then the
 * search reads nothing else. */
static void finish(struct automaton *a)
{
    for (size_t i = 0; i < (size_t)a->n_nodes * a->n_classes; i++) {
        uint32_t node = a->next[i];
        bool hit = a->output[node] != AUTOMATON_END || a->suffix[node] != 0;
        a->next[i] = node * a->n_classes * 2 + hit;
    }
}

int automaton_init(struct automaton *ret, const struct automaton_literal *literals, uint32_t n,
                   size_t max_bytes)
{
    struct automaton a = {.n_classes = 1, .n_nodes = 1};
    choose_classes(&a, literals, n);
    size_t nodes = 1;
    for (uint32_t i = 0; i < n; i++)
        nodes += literals[i].text.n;
    if (nodes > max_bytes / sizeof *a.next / a.n_classes || nodes > INT32_MAX / a.n_classes)
        return AUTOMATON_TOO_LARGE;
    a.next = calloc(nodes * a.n_classes, sizeof *a.next);
    a.output = malloc(nodes * sizeof *a.output);
    a.suffix = calloc(nodes, sizeof *a.suffix);
    a.outputs = malloc((n ? n : 1) * sizeof *a.outputs);
    int r = a.next && a.output && a.suffix && a.outputs ? 0 : -ENOMEM;
    if (r == 0) {
        memset(a.output, 0xff, nodes * sizeof *a.output);
        for (uint32_t i = 0; i < n; i++)
            plant(&a, &literals[i], i);
        r = close_edges(&a);
    }
    if (r == 0)
        finish(&a);
    if (r < 0) {
        automaton_release(&a);
        return r;
    }
    *ret = a;
    return 0;
}

void automaton_release(struct automaton *a)
{
    free(a->next);
    free(a->output);
    free(a->suffix);
    free(a->outputs);
    *a = (struct automaton){0};
}

size_t automaton_bytes(const struct automaton *a)
{
    return (size_t)a->n_nodes * a->n_classes * sizeof *a->next;
}
