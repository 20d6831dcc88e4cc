/* SPDX-License-Identifier: Apache-2.0 */
/* Words of this very process, whose memory has code objects of CPython 3.12 made by hand. */
#include "tests/lib/unit.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bpf/beam.h"
#include "bpf/cpython.h"
#include "bpf/luajit.h"
#include "proto/base/clock.h"
#include "sender/runtimes/words.h"

#define CODES 300u
static uint64_t (*codes)[64];
static char *texts;
static atomic_bool is_gone;

/* A module of Erlang's with one function: its ranges, its header, the function and its code, and atoms. */
enum { MODULES = 12, HEADER = 16, INFO = 40, ATOMS = 70, PAGE = 72, ATOM = 80, EACH = 8 };
static uint64_t erlang[128];

static bool place_of(void *user, uint32_t pid, uint32_t runtime, struct runtime_place *ret)
{
    static const struct cpython_place place = {.minor = 12,
                                               .micro = 3,
                                               .first = 68,
                                               .file_name = 112,
                                               .name = 128,
                                               .lines = 136,
                                               .cookie = 120,
                                               .ascii = 40,
                                               .wide = 56};
    const struct beam_place beam = {
        .ranges = (uint64_t)erlang, .atoms = (uint64_t)&erlang[ATOMS], .functions = 0x60, .version = {13}};
    *ret = (struct runtime_place){.start = 7, .runtime = runtime};
    if (runtime == RUNTIME_BEAM)
        memcpy(ret->word, &beam, sizeof beam);
    else
        memcpy(ret->word, &place, sizeof place);
    return pid == (uint32_t)getpid() && !is_gone;
}

static struct words_process self(void)
{
    return (struct words_process){.serial = 1, .pid = (uint32_t)getpid(), .user = 0, .start = 7};
}

static struct sample_frame word_at(uint32_t i, uint16_t extra)
{
    return (struct sample_frame){.kind = SAMPLE_FRAME_WORD,
                                 .runtime = RUNTIME_CPYTHON,
                                 .extra = extra,
                                 .file = CPYTHON_COOKIE(&codes[i][120 / 8], 0),
                                 .where = (uint64_t)codes[i]};
}

/* So many functions, whose names are of `length` bytes, or as long as they are. */
static struct words *begin_with(uint32_t n_codes, int length)
{
    struct words *w = NULL;
    const size_t room = 128 + (size_t)length;
    codes = mmap(NULL, n_codes * sizeof *codes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    texts = calloc(n_codes, room);
    is_gone = false;
    unit_made(texts);
    for (uint32_t i = 0; i < n_codes; i++) {
        char *text = texts + room * i;
        int n_text = sprintf(text + 40, "function_%u", i);
        uint64_t n = (uint64_t)(length ? sprintf(text + 40, "function_%0*u", length - 9, i) : n_text),
                 state = 0x60 | 1 << 2;
        memcpy(text + 16, &n, sizeof n);
        memcpy(text + 32, &state, sizeof state);
        codes[i][112 / 8] = codes[i][120 / 8] = codes[i][128 / 8] = codes[i][136 / 8] = (uint64_t)text;
    }
    int r = words_new(&w, &(struct words_options){.place = place_of, .proc_root = "/proc"});
    unit_made(r == 0 ? w : NULL);
    return w;
}

static struct words *begin(void)
{
    return begin_with(CODES, 0);
}

static void end_with(struct words *w, uint32_t n_codes)
{
    words_free(w);
    munmap(codes, n_codes * sizeof *codes);
    free(texts);
}

static void end(struct words *w)
{
    end_with(w, CODES);
}

UNIT(each_word_gets_its_name_once)
{
    struct words *w = begin();
    struct words_process of = self();
    struct word *word[CODES];
    for (uint32_t i = 0; i < CODES; i++) {
        struct sample_frame frame = word_at(i, CPYTHON_NO_INSTRUCTION);
        word[i] = words_ask(w, &of, &frame, 1);
        unit_made(word[i]);
    }
    words_settle(w);
    for (uint32_t i = 0; i < CODES; i++) {
        char name[32];
        snprintf(name, sizeof name, "function_%u", i);
        ck_assert_ptr_nonnull(word_call(word[i]));
        ck_assert(bytes_is(call_name(word_call(word[i])).name, name));
        struct sample_frame frame = word_at(i, CPYTHON_NO_INSTRUCTION);
        ck_assert_ptr_eq(words_ask(w, &of, &frame, 2), word[i]);
        word_let_go(word[i]);
    }
    ck_assert_str_eq(word_version(word[0]), "3.12.3");
    struct words_counts counts = words_counts(w);
    ck_assert(counts.named == CODES && counts.failed == 0 && counts.words == CODES && counts.processes == 1);
    words_end(w, of.pid, of.start);
    ck_assert(words_counts(w).processes == 0 &&
              bytes_is(call_name(word_call(word[9])).name, "function_9")); /* held */
    for (uint32_t i = 0; i < CODES; i++)
        word_let_go(word[i]);
    end(w);
}

UNIT(what_has_no_name_is_asked_for_again)
{
    struct words *w = begin();
    struct words_process of = self();
    struct sample_frame frame = word_at(3, 0);
    is_gone = true;
    struct word *word = words_ask(w, &of, &frame, 1);
    unit_made(word);
    words_settle(w);
    ck_assert_ptr_null(word_call(word));
    is_gone = false;
    ck_assert_ptr_eq(words_ask(w, &of, &frame, 2), word);
    words_settle(w);
    ck_assert_ptr_nonnull(word_call(word));
    frame.file++; /* another one was there */
    struct word *other = words_ask(w, &of, &frame, 3);
    unit_made(other);
    words_settle(w);
    ck_assert(other != word && word_call(other) == NULL);
    word_let_go(word);
    word_let_go(word);
    word_let_go(other);
    end(w);
}

UNIT(what_is_like_another_one_has_its_name_when_it_is_gone)
{
    struct words *w = begin();
    struct words_process of = self();
    uint64_t *proto = calloc(32, 8), *chunk = calloc(8, 8);
    unit_made(proto && chunk ? proto : NULL);
    proto[1] = 7u << 8 | 5ull << 32; /* of five instructions */
    proto[8] = (uint64_t)chunk;
    chunk[1] = 9ull << 32; /* its number; "@a.lua" */
    chunk[2] = 6ull << 32;
    memcpy(&chunk[3], "@a.lua", 6);
    proto[9] = 1ull << 32; /* from line 0 on */
    uint64_t hash = LUAJIT_HASH(9, proto[9], 5, 0, 0);
    struct sample_frame frame[3];
    struct word *word[3];
    for (int i = 0; i < 3; i++) {
        uint64_t at = i == 0 ? (uint64_t)proto : 4096; /* where nothing is */
        frame[i] = (struct sample_frame){.kind = SAMPLE_FRAME_WORD,
                                         .runtime = RUNTIME_LUAJIT,
                                         .extra = i == 2 ? 8 : 7,
                                         .where = LUAJIT_WHERE(at, hash, LUAJIT_LUA)};
        word[i] = words_ask(w, &of, &frame[i], 1);
        unit_made(word[i]);
        words_settle(w);
    }
    for (int i = 0; i < 2; i++) {
        ck_assert_ptr_nonnull(word_call(word[i]));
        ck_assert(bytes_is(call_name(word_call(word[i])).name, "main chunk"));
        ck_assert(bytes_is(call_name(word_call(word[i])).file, "a.lua"));
    }
    ck_assert_ptr_null(word_call(word[2])); /* at another line */
    for (int i = 0; i < 3; i++)
        word_let_go(word[i]);
    free(proto);
    free(chunk);
    end(w);
}

static void make_module(void)
{
    static const char *const names[] = {"hot", "first", "other"};
    memset(erlang, 0, sizeof erlang);
    erlang[0] = (uint64_t)&erlang[MODULES];
    erlang[1] = erlang[HEADER] = 1;
    erlang[MODULES] = (uint64_t)&erlang[HEADER];
    erlang[MODULES + 1] = erlang[HEADER + 13] = (uint64_t)&erlang[ATOMS];
    erlang[HEADER + 12] = (uint64_t)&erlang[INFO];
    erlang[ATOMS] = (uint64_t)&erlang[PAGE];
    for (uint64_t i = 0; i < 3; i++) {
        uint64_t *atom = &erlang[ATOM + EACH * i];
        erlang[PAGE + i] = (uint64_t)atom;
        atom[2] = i;
        atom[3] = strlen(names[i]);
        atom[4] = (uint64_t)names[i];
        erlang[INFO + 2 + i] = i << 6 | 0x0b;
    }
    erlang[INFO + 4] = 0; /* it takes nothing */
}

static const char *name_again(struct words *w, const struct sample_frame *frame)
{
    struct words_process of = self();
    struct word *word = words_ask(w, &of, frame, 1);
    unit_made(word);
    words_settle(w);
    const struct call *call = word_call(word);
    word_let_go(word);
    return call ? (const char *)call_name(call).name.p : NULL;
}

UNIT(what_is_another_function_by_now_is_called_so)
{
    struct words *w = begin();
    make_module();
    struct sample_frame frame = {.kind = SAMPLE_FRAME_WORD,
                                 .runtime = RUNTIME_BEAM,
                                 .file = BEAM_COOKIE(0),
                                 .where = (uint64_t)&erlang[INFO + 10]};
    const char *first = name_again(w, &frame);
    unit_made((void *)first);
    ck_assert_str_eq(first, "hot:first/0");
    ck_assert_ptr_eq(name_again(w, &frame), first);
    erlang[INFO + 3] = 2 << 6 | 0x0b;
    ck_assert_str_eq(name_again(w, &frame), "hot:other/0");
    ck_assert_str_eq(first, "hot:first/0"); /* who has it goes on */
    erlang[INFO + 10] = 1;
    ck_assert_str_eq(name_again(w, &frame), "hot:other/0"); /* as when it was seen */
    erlang[INFO + 3] = 1 << 6 | 0x0b;
    ck_assert_ptr_null(name_again(w, &frame));
    end(w);
}

UNIT(a_process_with_too_many_begins_anew)
{
    struct words *w = begin();
    struct words_process of = self();
    struct sample_frame frame = word_at(0, 0);
    struct word *first = words_ask(w, &of, &frame, 1);
    unit_made(first);
    for (uint32_t i = 1; i <= WORDS_TABLE_MAX; i++) {
        frame = word_at(i % CODES, (uint16_t)(i / CODES));
        struct word *word = words_ask(w, &of, &frame, 1);
        unit_made(word);
        word_let_go(word);
        ck_assert_uint_le(words_counts(w).words, WORDS_TABLE_MAX);
    }
    ck_assert_uint_eq(words_counts(w).words, 1);
    words_settle(w);
    ck_assert(bytes_is(call_name(word_call(first)).name, "function_0"));
    words_sweep(w, WORDS_IDLE_NS + 2);
    ck_assert_uint_eq(words_counts(w).processes, 0);
    word_let_go(first);
    end(w);
}

/* A name and a file of 500 bytes for each word, of several processes of two users'. */
UNIT(names_take_no_more_than_they_may_and_leave_others_theirs)
{
    const uint32_t n = 17000;
    struct words *w = begin_with(n, 500);
    struct words_process of = self(), other = {.serial = 9, .pid = of.pid, .user = 1, .start = of.start};
    struct sample_frame frame = word_at(0, 0);
    struct word *word = words_ask(w, &other, &frame, 1);
    unit_made(word);
    word_let_go(word);
    for (uint32_t i = 1; i < n; i++) {
        frame = word_at(i, 0);
        of.serial = 1 + i % 8;
        of.user = 2 * (i % 2);
        word = words_ask(w, &of, &frame, 1);
        unit_made(word);
        word_let_go(word);
        if (i % 500 == 0)
            words_settle(w);
        ck_assert_uint_lt(words_counts(w).text, WORDS_TEXT_MAX + 500 * 1200);
    }
    words_settle(w);
    ck_assert_uint_lt(words_counts(w).words, n - 1000);
    frame = word_at(0, 0);
    word = words_ask(w, &other, &frame, 1);
    ck_assert(unit_made(word) && word_call(word));
    word_let_go(word);
    end_with(w, n);
}

UNIT(processes_of_one_program_have_their_names_in_common)
{
    struct words *w = begin();
    struct words_process of[2] = {self(), self()};
    struct sample_frame frame = word_at(5, CPYTHON_NO_INSTRUCTION);
    struct word *word[2];
    of[1].serial = 2;
    for (int i = 0; i < 2; i++) {
        word[i] = words_ask(w, &of[i], &frame, 1);
        unit_made(word[i]);
    }
    words_settle(w);
    ck_assert(word[0] != word[1] && word_call(word[0]) && word_call(word[0]) == word_call(word[1]));
    word_let_go(word[0]);
    words_end(w, of[0].pid, of[0].start); /* both: they are the same but for the serial */
    ck_assert(bytes_is(call_name(word_call(word[1])).name, "function_5"));
    word_let_go(word[1]);
    end(w);
}

/* Memory goes and comes while names are read. */
UNIT(memory_that_is_taken_away_costs_names_only)
{
    struct words *w = begin();
    struct words_process of = self();
    for (int round = 0; round < 40; round++) {
        for (uint32_t i = 0; i < CODES; i++) {
            struct sample_frame frame = {.kind = SAMPLE_FRAME_WORD,
                                         .runtime = RUNTIME_CPYTHON,
                                         .extra = (uint16_t)round,
                                         .where = (uint64_t)codes[i]};
            struct word *word = words_ask(w, &of, &frame, 1);
            unit_made(word);
            word_let_go(word);
        }
        mprotect(codes, CODES * sizeof *codes, round & 1 ? PROT_READ | PROT_WRITE : PROT_NONE);
    }
    const uint64_t until = clock_monotonic() + unit_patience(20 * NSEC_PER_SEC);
    struct words_counts counts = words_counts(w);
    while (counts.named + counts.failed < 40 * CODES && clock_monotonic() < until) {
        words_settle(w); /* which waits for a second at most */
        counts = words_counts(w);
    }
    ck_assert_uint_eq(counts.named + counts.failed, 40 * CODES);
    end(w);
}

/* One that has had its share of what they have together keeps no name from the other. */
UNIT(a_neighbour_of_the_same_user_takes_no_names_away)
{
    struct words *w = begin();
    struct words_process of = self(), liar = self();
    uint32_t n_spent = 0; /* rounds in which the other one got no name any more */
    liar.serial = 2;
    for (uint32_t round = 0; n_spent < 10; round++) {
        ck_assert_uint_lt(round, UINT16_MAX);
        struct sample_frame frame;
        for (uint32_t i = 0; i < CODES; i++) {
            frame = word_at(i, (uint16_t)round);
            struct word *lie = words_ask(w, &liar, &frame, 1);
            unit_made(lie);
            word_let_go(lie);
        }
        frame = word_at(0, (uint16_t)round);
        struct word *word = words_ask(w, &of, &frame, 1);
        unit_made(word);
        words_settle(w);
        ck_assert_msg(word_call(word), "in round %u", round);
        word_let_go(word);
        n_spent += words_counts(w).failed > 0;
    }
    end(w);
}
