/* SPDX-License-Identifier: Apache-2.0 */
/* What an emulator that runs is found by, in memory made by hand. */
#include "tests/lib/unit.h"

#include <errno.h>

#include "sender/runtimes/beam/state.h"
#include "sender/runtimes/runtime.h"
#include "tests/unit/sender/runtimes/made_memory.h"

enum {
    BIAS = 0x1000, /* addresses below are the file's but where they say so */
    DATA = 0x1000,
    DATA_SIZE = 0x800,
    DESCRIPTOR = DATA + 0x100,
    RANGES = DATA + 0x200,
    ATOMS = DATA + 0x300,
    /* The process's: */
    NAME = 0x1800,
    ENTRIES = 0x4000,
    EMULATOR = 0x4200,
    SHARED_NAMES = 0x4300,
    SHARED = 0x8000,
    MAIN = 0x40, /* in it */
    MAIN_SIZE = 0x80,
    MODULES = 0x5000,
    HEADER = 0x5100,
    FIRST = 0x5300,
    PAGES = 0x6000,
    EXIT = 0x8700
};

static const struct beam_binary binary = {.version = {13, 1, 5},
                                          .start = 0,
                                          .end = 0x2000,
                                          .text = 0x700,
                                          .text_size = 0x200,
                                          .main = 0x720,
                                          .data = {{DATA, DATA_SIZE}},
                                          .n_data = 1};

static void put_entry(uint32_t number, uint64_t file, uint64_t size)
{
    uint64_t at = ENTRIES + 32 * number;
    put(at, number ? 0 : at + 32);
    put(at + 16, file);
    put(at + 24, size);
}

static void put_piece(uint64_t at, uint32_t start, uint32_t end, const char *name)
{
    uint32_t head[3] = {start, end, 0};
    uint16_t n = (uint16_t)(strlen(name) + 1);
    memcpy(memory + at, head, sizeof head);
    memcpy(memory + at + 12, &n, sizeof n);
    memcpy(memory + at + 14, name, n);
}

static void put_shared_names(void)
{
    static const char other[] = "global::call_bif_shared", process_main[] = "global::process_main";
    uint64_t at = SHARED_NAMES + 32 + 7;
    put(SHARED_NAMES, 1);
    put(SHARED_NAMES + 8, SHARED);
    put(SHARED_NAMES + 16, 2 | 0x1000ull << 32);
    memcpy(memory + SHARED_NAMES + 24, "\7\0global", 9);
    put_piece(at, 0, MAIN, other);
    put_piece(at + 16 + sizeof other, MAIN, MAIN + MAIN_SIZE, process_main);
}

static void put_main(uint8_t first)
{
    const uint8_t code[] = {first, 0x81, 0xec, 0x40, 0x20, 0,    0,    /* sub $0x2040, %rsp */
                            0x48,  0x83, 0xe4, 0xc0, 0x48, 0x89, 0x27, /* and $-64, %rsp; mov %rsp, (%rdi) */
                            0x48,  0x8d, 0x5c, 0x24, 0x70,             /* lea 0x70(%rsp), %rbx */
                            0x90,  0x49, 0x8b, 0x65, 0x58};            /* mov 0x58(%r13), %rsp */
    memcpy(memory + SHARED + MAIN, code, sizeof code);
}

static void put_module(void)
{
    uint64_t at = BIAS + RANGES;
    put(at, MODULES);
    put(at + 8, 2);
    put(at + 16, 1000);
    put(at + 24, MODULES + 16);
    put(MODULES, HEADER);
    put(MODULES + 8, FIRST + 0x200);
    put(HEADER, 2); /* functions, and in all versions words between */
    put(HEADER + 8 * 12, FIRST);
    put(HEADER + 8 * 13, FIRST + 0x80);
    put(HEADER + 8 * 14, FIRST + 0x100);
    put(FIRST + 16, 7 << 6 | 0x0b);
    put(FIRST + 24, 8 << 6 | 0x0b);
    put(FIRST + 32, 3);
}

static void put_atoms(void)
{
    uint64_t at = BIAS + ATOMS;
    put(at, NAME);
    memcpy(memory + NAME, "atom_tab", 9);
    put(at + 8 * 5, 1024ull << 32);
    put(at + 8 * 6, 4096 | 900ull << 32);
    put(at + 8 * 7, PAGES);
    put(PAGES, PAGES + 64);
    put(PAGES + 64, PAGES + 128);
    put(PAGES + 72, PAGES + 160);
    put(PAGES + 160 + 16, 1);
}

static void begin(void)
{
    memset(memory, 0, sizeof memory);
    put(BIAS + DESCRIPTOR, 1ull | 1ull << 32);
    put(BIAS + DESCRIPTOR + 16, ENTRIES);
    put_entry(0, EMULATOR, 32);
    put_entry(1, SHARED_NAMES, 256);
    put(EMULATOR + 8, 1); /* with frame pointers */
    put(EMULATOR + 16, EXIT);
    put_shared_names();
    put_main(0x48);
    put_module();
    put_atoms();
}

static int state(struct beam_place *ret)
{
    struct source source = all();
    return beam_state(ret, &binary, &source, BIAS);
}

UNIT(all_that_is_needed_is_found)
{
    struct beam_place place;
    begin();
    ck_assert_int_eq(state(&place), 0);
    ck_assert(place.main == SHARED + MAIN && place.main_size == MAIN_SIZE);
    ck_assert(place.shared == SHARED && place.shared_size == 0x1000);
    ck_assert(place.text == BIAS + 0x700 && place.text_size == 0x200 && place.call == BIAS + 0x720);
    ck_assert(place.exit == EXIT && place.has_pointers);
    ck_assert(place.frame == 0x2040 && place.registers == 0x70 && place.stop == 0x58);
    ck_assert(place.ranges == BIAS + RANGES && place.functions == 8 * 12);
    ck_assert(place.atoms == PAGES && place.version[0] == 13);
}

UNIT(a_piece_of_the_shared_code_has_a_name)
{
    struct beam_place place;
    struct beam_piece piece;
    struct source source = all();
    begin();
    ck_assert_int_eq(state(&place), 0);
    ck_assert(beam_piece(&source, &place, NULL, SHARED + MAIN - 1, &piece));
    ck_assert_str_eq(piece.name, "global::call_bif_shared");
    ck_assert(!beam_piece(&source, &place, NULL, SHARED + MAIN + MAIN_SIZE, &piece));
    memory[SHARED_NAMES + 32 + 7 + 12] = 255; /* a name that is longer than all there is */
    memory[SHARED_NAMES + 32 + 7 + 13] = 255;
    ck_assert(!beam_piece(&source, &place, NULL, SHARED + MAIN - 1, &piece));
}

UNIT(what_has_not_begun_is_asked_again)
{
    static const uint64_t missing[] = {BIAS + DESCRIPTOR + 16, EMULATOR + 16, BIAS + RANGES, BIAS + ATOMS};
    struct beam_place place;
    for (size_t i = 0; i < sizeof missing / sizeof *missing; i++) {
        begin();
        put(missing[i], 0);
        ck_assert_int_eq(state(&place), -EAGAIN);
    }
}

UNIT(another_kind_of_process_main_is_another_version)
{
    struct beam_place place;
    begin();
    put_main(0x49);
    ck_assert_int_eq(state(&place), RUNTIME_NOT_KNOWN);
}

UNIT(a_list_that_goes_round_ends)
{
    struct beam_place place;
    begin();
    put(ENTRIES + 32, ENTRIES);
    ck_assert_int_eq(state(&place), -EAGAIN);
}
