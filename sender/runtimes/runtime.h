/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A runtime whose frames are told apart from machine code: how its files are recognised, what its step in the
 * kernel (bpf/runtimes.bpf.h) has to know of a process, and what the words are called that the step sends.
 *
 * A row each, in the order of bpf/runtimes.h, where it is listed; its functions are in a folder of its own.
 * Whoever meets a frame asks its row: nothing else in the tree names a runtime.
 */
#ifndef SENDER_RUNTIMES_RUNTIME_H
#define SENDER_RUNTIMES_RUNTIME_H

#include <stdbool.h>
#include <stdint.h>

#include "bpf/runtimes.h"
#include "bpf/sample.h"
#include "proto/base/arena.h"
#include "proto/base/bytes.h"
#include "sender/symbolize/elf/source.h"

struct maps;
struct region;

/* A file with code that some process has mapped, or has begun as its executable. */
struct runtime_file {
    struct bytes path; /* as we see it; NUL-terminated, "" if not known */
    const struct source *source;
};

/* A process that runs. */
struct runtime_process {
    uint32_t pid;
    uint64_t start;              /* ns since boot */
    const struct source *memory; /* at its addresses; what reading costs is charged */
    /* prepare: where the runtime's code was met, … */
    const struct maps *maps;     /* of where it has code (sender/procs/maps.h) */
    const struct region *region; /* … which of them that is, … */
    const struct source *file;   /* … the file that is there, … */
    uint64_t bias;               /* … and what its addresses are more in the process */
    /* step: where the frame's code is in its file; 0: it is in none. */
    uint64_t offset;
    /* resolve, step: what prepare said. */
    const struct runtime_place *place;
    /* step: the last word of the runtime's that was told ahead; NULL: there is none. */
    const struct sample_frame *ahead;
};

/* What a name was read from, the row's business: see `has_changed`. */
struct runtime_mark {
    uint64_t at[3], said;
};

/* A word of a process's memory. */
static inline bool runtime_load(const struct source *memory, uint64_t at, uint64_t *ret)
{
    return source_read(memory, at, ret, sizeof *ret);
}

/* What a word is called; slices into the arena, or static. */
struct runtime_name {
    struct bytes name;                 /* .n 0: not known */
    struct bytes file;                 /* source file; "" if not known */
    uint32_t line;                     /* 0 if not known */
    const struct runtime_name *caller; /* what it is inlined into, no frame of its own; NULL: it is not */
    struct runtime_mark mark;
};

/* A thread's stack as it was, though the thread goes on. */
struct runtime_stack {
    /* The word at an address; 0, or -1: it is not there. */
    int (*load)(void *of, uint64_t address, uint64_t *value);
    void *of;
};

#define RUNTIME_VERSION_MAX 32u

/* A condition: there is no place for this version or build of the runtime, which is said (run/strangers). */
#define RUNTIME_NOT_KNOWN 1

struct runtime {
    const char *name;       /* process.runtime.name */
    const char *frame_type; /* profile.frame.type of its frames: a value of the semantic conventions */

    /* Whether a file has this runtime's code: then its step is asked there. NULL: never. On the thread of the
     * unwind tables, once a file. */
    bool (*recognise)(const struct runtime_file *file);

    /* Fills the words of a zeroed place. 0; RUNTIME_NOT_KNOWN; or -errno: it is too early. Of both the kernel
     * side asks again. NULL: there is no step. On the same thread, once a process and program. */
    int (*prepare)(const struct runtime_process *process, struct runtime_place *ret);

    /* process.runtime.version of a process, by what prepare said; "": not known. NULL: it has none. */
    void (*version)(const struct runtime_place *place, char ret[RUNTIME_VERSION_MAX]);

    /* Whether words stand for a frame of the machine at this address. NULL: never. */
    bool (*stands_for)(const struct runtime_place *place, uint64_t address);

    /* Whether words that were told ahead, up to this end of theirs, are of a call that has not begun yet, and
     * stand for no frame of the machine: the one that they would stand for has called `called`. NULL: none.
     */
    bool (*is_to_come)(const struct sample_frame *end, uint64_t called);

    /* Whether a frame of the machine at this address is one with the next, for which words stand, and is not
     * told. NULL: none is. */
    bool (*is_beside)(const struct runtime_place *place, uint64_t address);

    /* Whether a stack of the machine that ends with a frame at this address is not the thread's first one, so
     * that words which are left over are of the others, and told behind it. Else what is left over when a
     * walk has come to the root is nobody's. NULL: none is. */
    bool (*goes_on)(const struct runtime_place *place, uint64_t address);

    /* Names a word while its process is there, so on the way from the ring to the window: some microseconds,
     * once a word and window. False: it cannot be said. NULL: it has no words. */
    bool (*resolve)(const struct runtime_process *process, const struct sample_frame *frame,
                    struct arena *text, struct runtime_name *ret);

    /* Whether what a name was read from is there and says something else by now: of runtimes whose words do
     * not tell all of them apart. Asked once a word and window. NULL: they do. */
    bool (*has_changed)(const struct runtime_process *process, const struct runtime_mark *mark);

    /* What words of this runtime's in one process have in common that are called the same, 1 or more: so that
     * one whose own memory is gone has the name of another. NULL, or 0: there is nothing. */
    uint64_t (*likeness)(const struct sample_frame *frame);

    /* Its file has code that is the step's, whatever the unwinder's tables say of it. */
    bool has_builtins;

    /* Goes from a frame in generated code, or in the runtime's file, to its caller, as the kernel side's step
     * does. word->kind says what is to be told: a word, of which those told ahead are told if its `where`
     * is 0; the code; or nothing, SAMPLE_FRAME_KERNEL. False: it is no frame of the runtime's, or cannot be
     * said. NULL: its frames are not the stack's. */
    bool (*step)(const struct runtime_process *process, const struct runtime_stack *stack,
                 struct unwind_registers *at, struct sample_frame *word);
};

/* Each is defined in its folder. */
#define RUNTIME_ROW(tag, name) extern const struct runtime runtime_##name;
RUNTIMES(RUNTIME_ROW)
#undef RUNTIME_ROW

/* The row of a tag below RUNTIME_TAGS. Never NULL. */
const struct runtime *runtime_of(uint32_t tag);

/* Whose code a file has: RUNTIME_NATIVE if no other says that it is his. */
enum runtime_tag runtime_recognise(const struct runtime_file *file);

/* What a file that no row recognises has in it all the same: a runtime that there is no row for, or a version
 * or build that its row does not know, as people call it; NULL: nothing of that. So that it is said. */
const char *runtime_stranger(const struct runtime_file *file);

#endif
