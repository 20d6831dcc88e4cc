/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the words of runtimes are called: found as they come, while what they mean is there, on a thread of
 * its own, so that a process with thousands of new ones keeps no sample waiting; and kept by process, so that
 * each is found once.
 *
 *     struct word *word = words_ask(w, &of, &frame, now);     the loop's thread; held …
 *     words_go(w);                                            … when the ring is empty
 *     words_settle(w);                                        the naming thread
 *     … word_call(word) …
 *     word_let_go(word);                                      any thread
 */
#ifndef SENDER_RUNTIMES_WORDS_H
#define SENDER_RUNTIMES_WORDS_H

#include <stdbool.h>
#include <stdint.h>

#include "sender/runtimes/calls.h"

struct words;
struct word;

/* Words kept of one process, 50 bytes each, and what their names may take if no other process has them, too;
 * what is above begins anew, which costs all of them again: so it is far more than anybody runs at a time. A
 * program of 10,000 functions that are called from 10,000 places has twice as many. */
#define WORDS_TABLE_MAX  40000u
#define WORDS_TABLE_TEXT (4u << 20)
/* Of all processes; then the one that has most begins anew. And what all names may take, each once: then it
 * is the one with most of the user's who has most. */
#define WORDS_MAX      200000u
#define WORDS_TEXT_MAX (16u << 20)
/* A process without words for so long is forgotten. */
#define WORDS_IDLE_NS 60000000000u
/* How long names are waited for at the end of a window. */
#define WORDS_SETTLE_NS 1000000000u
/* What finding one name may cost, in the unit of sender/foreign/allowance.h: a real one takes a twentieth,
 * and one of compiled Java with forty methods in it nearly all. */
#define WORDS_COST_MAX (1 << 20)

struct words_options {
    /* What prepare said of a process. False: nothing (any more). From the words' thread. */
    bool (*place)(void *user, uint32_t pid, uint32_t runtime, struct runtime_place *ret);
    void *user;
    const char *proc_root; /* "/proc", or a folder like it; must stay */
    void (*begin)(void);   /* called by the words' thread when it has started; NULL: nothing is to be done */
};

/* A process. */
struct words_process {
    uint64_t serial;    /* never another's */
    uint32_t pid, user; /* the share that the process has of `user`'s allowance pays for the reading */
    uint32_t thread;    /* one of its threads that runs: its memory is that one's where the first has ended */
    uint64_t start;
};

struct words_counts {
    uint32_t processes, words;
    uint64_t text;          /* bytes of names */
    uint64_t named, failed; /* found, and not, since the start; what is asked for again counts again */
};

/* Starts the thread. 0 or -errno. */
int words_new(struct words **ret, const struct words_options *options);

/* Ends the thread; nobody asks or settles any more. What is held stays until it is let go. Returns NULL; NULL
 * is fine. */
struct words *words_free(struct words *w);

/* A word of a process, held; its name is looked for if it has none, or may have another by now. Once a
 * window. NULL: memory is out. */
struct word *words_ask(struct words *w, const struct words_process *of, const struct sample_frame *frame,
                       uint64_t now);

/* Has those looked for that were asked for since: all at once, by one errand (foreign/errand.h) for 32 of a
 * process, where one for each would cost more than what it brings. */
void words_go(struct words *w);

/* Forgets a process that has ended, or become another program; and those that are idle. */
void words_end(struct words *w, uint32_t pid, uint64_t start);
void words_sweep(struct words *w, uint64_t now);

/* Waits until what was asked for so far is answered, for WORDS_SETTLE_NS at most. Any thread. */
void words_settle(struct words *w);

/* What it is called; NULL: it is not known (yet). Valid as long as the word is held; but a word that is asked
 * for again may get another one. */
const struct call *word_call(const struct word *word);
const struct runtime *word_runtime(const struct word *word);
/* process.runtime.version; "": not known. Of one that has a name. */
const char *word_version(const struct word *word);
void word_let_go(struct word *word);

struct words_counts words_counts(struct words *w);

#endif
