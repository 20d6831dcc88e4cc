/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * How to get from a frame to its caller, as tables both sides share: user space compiles them from a file's
 * call frame information (sender/unwind), the kernel side reads them (walk.bpf.h).
 *
 * A file is named by its key. Its executable bytes are cut into pages of 4 KiB of file offset, of which those
 * are here that samples have asked for: most of a large program's code is in no stack. A page has a run of
 * rows, ascending, the first at 0: the last row not above an address applies. A row names a rule; rules are
 * shared by all files. x86-64 (System V psABI, DWARF register numbers of its figure 3.36).
 */
#ifndef BPF_UNWIND_H
#define BPF_UNWIND_H

#include "bpf/types.h"

/* User frames of one stack. Programs that recurse deeper are cut at the root's end, and it is said. */
#define UNWIND_FRAMES_MAX 512

#define UNWIND_PAGE_BITS 12u
#define UNWIND_PAGE_SIZE (1u << UNWIND_PAGE_BITS)

/* Rows live in blocks, blocks in shards (one BPF map each, made when needed); a page's are in blocks one
 * after the other of one shard. All sizes are powers of two: the kernel's verifier is shown that an index is
 * in bounds by masking it. */
#define UNWIND_BLOCK_ROWS   32u
#define UNWIND_SHARD_BLOCKS 2048u
#define UNWIND_SHARD_ROWS   (UNWIND_BLOCK_ROWS * UNWIND_SHARD_BLOCKS) /* 256 KiB */
#define UNWIND_SHARDS       32u                                       /* 8 MiB of rows at the very most */
/* Those that are there from the start: what a machine at rest and its busiest programs need. */
#define UNWIND_NEAR_SHARDS 12u /* 3 MiB */
#define UNWIND_BLOCKS      (UNWIND_SHARDS * UNWIND_SHARD_BLOCKS)

/* Distinct rules: ten large programs together have about 1,100. */
#define UNWIND_RULES 8192u
/* Files known at a time; the low bits of a file's serial are its place among them, never 0. */
#define UNWIND_FILES 4096u

/* The pages that are here: a hash table of buckets of eight, a cache line each; those of 256 KiB of code lie
 * in one page of memory. An entry is a word, read and written as one: the page's name in the low 32 bits; its
 * first block in 16; how many rows it has, in fours, in 8 (0: of this code nothing is known); when it was
 * last used, in units of UNWIND_USED_SHIFT, in the highest 8, which the kernel side writes. 0: empty. */
#define UNWIND_PAGE_WAYS    8u
#define UNWIND_BUCKETS_BITS 12u
#define UNWIND_BUCKETS      (1u << UNWIND_BUCKETS_BITS)
#define UNWIND_PAGES        (UNWIND_BUCKETS * UNWIND_PAGE_WAYS)
/* Pages of one file: 4 GiB. */
#define UNWIND_FILE_PAGES (1u << 20)

#define UNWIND_PAGE_ROWS_MAX         1020u
#define UNWIND_PAGE_NAME(file, page) (((file) & (UNWIND_FILES - 1)) << 20 | (page))
#define UNWIND_PAGE_BUCKET(name)     (((name) >> 6) * 0x9e3779b1u >> (32 - UNWIND_BUCKETS_BITS) ^ ((name)&63u))
#define UNWIND_PAGE(name, block, n)  ((bpf_u64)(n) / 4 << 48 | (bpf_u64)(block) << 32 | (name))
#define UNWIND_PAGE_BLOCK(entry)     ((bpf_u32)((entry) >> 32) & (UNWIND_BLOCKS - 1))
#define UNWIND_PAGE_N(entry)         (((bpf_u32)((entry) >> 48) & 255u) * 4)
#define UNWIND_PAGE_USED(entry)      ((bpf_u32)((entry) >> 56))
#define UNWIND_USED_SHIFT            32u /* of nanoseconds: 4.3 s */

struct unwind_bucket {
    bpf_u64 page[UNWIND_PAGE_WAYS];
} __attribute__((aligned(64)));

struct unwind_row {
    bpf_u16 low; /* offset in the page */
    bpf_u16 rule;
};

/* The canonical frame address: what rsp is in the caller, behind the return address. */
enum unwind_cfa {
    UNWIND_CFA_NONE,    /* nothing is known of this code: the frame pointer may lead on */
    UNWIND_CFA_RSP,     /* rsp + cfa_offset */
    UNWIND_CFA_RBP,     /* rbp + cfa_offset */
    UNWIND_CFA_AT_RSP,  /* what is stored at rsp + (cfa_offset >> 8), plus (cfa_offset & 255) */
    UNWIND_CFA_AT_RBP,  /* likewise by rbp */
    UNWIND_CFA_PLT,     /* rsp + 8, or + 16 from byte `cfa_offset` of each 16 on */
    UNWIND_CFA_ROOT,    /* there is no caller */
    UNWIND_CFA_SIGNAL,  /* the kernel's signal frame is at rsp: everything is in it */
    UNWIND_CFA_PADDING, /* between functions: as "returned to", below a function that no call made; else rsp +
                           8 */
    UNWIND_CFA_UNSAID,  /* rsp + cfa_offset, by its instructions alone */
    UNWIND_CFA_UNKNOWN, /* more than these rules can say */
    UNWIND_CFA_REGISTER, /* + n: register n + cfa_offset, where all registers are known: leaf frames */
    UNWIND_CFA_KEPT = UNWIND_CFA_REGISTER + 16, /* + n: likewise, and right behind a call of such a leaf,
                                                   which leaves that register alone */
    UNWIND_CFA_AT_RSP_TWICE =
        UNWIND_CFA_KEPT + 16, /* as UNWIND_CFA_AT_RSP, and what is stored there is yet
                                 where it is stored: the stack that another one began on */
    UNWIND_CFA_END,
    UNWIND_CFA_POINTER = 254, /* the frame pointer leads on, as who compiled it says */
    UNWIND_CFA_MISSING = 255, /* in no table: the page's rows are not there */
};

/* Where the caller's rbp is. */
enum unwind_rbp {
    UNWIND_RBP_SAME,
    UNWIND_RBP_AT_CFA, /* stored at CFA + rbp_offset */
    UNWIND_RBP_AT_RBP, /* stored at rbp + rbp_offset */
    UNWIND_RBP_AT_RSP, /* stored at rsp + rbp_offset */
    UNWIND_RBP_LOST,
    UNWIND_RBP_RA_IN_REG, /* the same; and the return address is in register rbp_offset (leaf frames) */
};

struct unwind_rule {
    bpf_u8 cfa;
    bpf_u8 rbp;
    bpf_s16 rbp_offset;
    bpf_s32 cfa_offset;
};

/* Names the bytes of a file: a file that is written anew, or another one that got its inode, has another key.
 * That may be within a second and of equal size: small programs are, that a build makes, runs and replaces.
 * All 0 is the vDSO, which is no file. */
struct unwind_key {
    bpf_u64 inode;
    bpf_u64 size;
    bpf_u64 mtime;  /* UNWIND_KEY_TIME */
    bpf_u32 device; /* as the kernel holds it: major << 20 | minor */
    bpf_u32 zero;
};

/* A file's seconds may be any number: what does not fit is cut off on both sides alike. One without a name,
 * on no block device, may be memory that a runtime (BEAM) writes the code to that it makes, all the time: of
 * that the second is enough, as no other one gets its inode's number. On a disk the next one does. */
#define UNWIND_KEY_TIME(seconds, nanoseconds, is_whole) \
    ((bpf_u64)(seconds)*1000000000ull + ((is_whole) ? (bpf_u64)(nanoseconds) : 0))

/* What stands for a file that has no tables yet where others have their serial, which is below it: what is
 * mapped there when that is read may be another one. The device has bits of its own, as the layers of
 * overlayfs have another than its users see, who see more in an inode's number as well. */
#define UNWIND_MARK        0x80000000u
#define UNWIND_MARK_DEVICE 0x7f800000u
#define UNWIND_INODE_BITS  40
static inline __attribute__((always_inline)) bpf_u32 unwind_mark(const struct unwind_key *key)
{
    const bpf_u64 by = 0x9e3779b97f4a7c15ull;
    bpf_u64 file = ((key->inode << (64 - UNWIND_INODE_BITS)) + key->size) * by + key->mtime;
    return UNWIND_MARK | ((bpf_u32)(key->device * by >> 32) & UNWIND_MARK_DEVICE) |
           (bpf_u32)(file * by >> 41);
}

/* Whether a mark is that of a file as user space sees it: what has no device of its own may be a layer's,
 * which is on another one. */
static inline __attribute__((always_inline)) int unwind_has_mark(const struct unwind_key *key, bpf_u32 mark)
{
    bpf_u32 other = unwind_mark(key) ^ mark;
    return (key->device >> 20 ? other : other & ~UNWIND_MARK_DEVICE) == 0;
}

struct unwind_file {
    bpf_u32 n_pages; /* where its code ends, in pages of file offset; 0: it has no call frame information */
    bpf_u32 serial; /* of this file's tables: others, of this file or another, have another; no UNWIND_MARK */
    bpf_u32 runtime; /* enum runtime_tag: whose code is in it */
    bpf_u32 code;    /* offset of its first code, by address: what mm->start_code is where it is executed */
};

/* A mapping of code that a walk has found. */
struct unwind_mapping {
    bpf_u64 start, length;
    bpf_u64 bias;       /* address + bias = offset in the file */
    bpf_u32 n_pages;    /* struct unwind_file */
    bpf_u32 serial;     /* likewise; is_pending: unwind_mark; 0: there is no file */
    bpf_u16 is_pending; /* user space has not been asked for this file, or has not answered */
    bpf_u16 runtime;    /* enum runtime_tag */
    bpf_u32 used;       /* as unwind_used holds it */
};

/* Registers of a frame. */
struct unwind_registers {
    bpf_u64 ip, sp, bp;
    bpf_u32 is_return; /* ip is a return address: the call is before it */
    bpf_u32 bp_lost;   /* bp is not known */
    bpf_u32 has_all;   /* `all` holds this frame's registers: the first frame, or one a signal interrupted */
    bpf_u32 had_all;   /* … those of the frame that this one has called */
    bpf_u64 all[16];   /* by DWARF number */
};

/* How a user stack ended. */
enum unwind_end {
    UNWIND_END_NONE,       /* there is no user stack */
    UNWIND_END_ROOT,       /* complete: a thread's first function */
    UNWIND_END_DEPTH,      /* UNWIND_FRAMES_MAX reached */
    UNWIND_END_UNREADABLE, /* stack memory that cannot be read (swapped out, or no memory) */
    UNWIND_END_NOT_CODE,   /* a return address that is in no executable mapping */
    UNWIND_END_NO_RULE,    /* what leads on cannot be said by a rule, nor by a frame pointer */
    UNWIND_END_BAD_FRAME,  /* the caller's frame is not above this one, nor in a stack */
    UNWIND_END_OTHER_ABI, /* a 32-bit program, or a machine without tables: by the kernel's frame pointer walk
                           */
    UNWIND_END_MISSING,   /* rows that were not there yet, and came too late for this stack */
    UNWIND_ENDS,
};

/* A walk that met rows that are not there: where it was, and the stack above by whole pages of memory: from
 * that of at.sp on, and the last ones, which end with the stack, or where user space said so (unwind_far):
 * some functions have frames of half a megabyte, such as rustc's run_compiler. The kernel side fills it in
 * for user space, which loads the rows and walks on (sender/unwind/rest.h). Of clang's stacks, some 100
 * frames, a tenth is longer than 64 KiB. */
#define UNWIND_REST_PAGES 32u
#define UNWIND_REST_LAST  8u  /* of these */
#define UNWIND_RESTS_MAX  32u /* under way at a time */
#define UNWIND_REST_WAYS  8u
struct unwind_rest {
    bpf_u64 has;     /* a bit a page: one that was never touched, or is swapped out, is not there */
    bpf_u64 end;     /* of the last pages */
    bpf_u32 user;    /* whose thread it is (user id) */
    bpf_u16 n_ahead; /* of the record's frames the last ones: words of what is to come (runtimes.bpf.h) */
    bpf_u16 is_told; /* words stand for the frame that it was at, which is not in the record itself */
    struct unwind_registers at;
    /* What the walk knew of the process's code: user space goes by it, and asks for more where it ends. */
    struct unwind_mapping way[UNWIND_REST_WAYS];
    bpf_u64 ways; /* a bit each: it was looked at in this walk, or nothing has changed since it was */
    bpf_u64 stack[UNWIND_REST_PAGES][4096 / 8];
};

/* Where the last pages of a thread's stack that are wanted end; threads that share a place take it from one
 * another. */
#define UNWIND_FARS 64u
struct unwind_far {
    bpf_u64 thread, end;
};

/* Whether a call ends with the 8 bytes before an address: e8 and a distance, or ff /2 with an operand of 1 to
 * 6 bytes. What is returned to and is behind none was never called: its frame was made by hand. */
static inline __attribute__((always_inline)) int unwind_ends_in_call(bpf_u64 before)
{
    return (before >> 24 & 0xff) == 0xe8 || (before >> 48 & 0x38ff) == 0x10ff ||
           (before >> 40 & 0x38ff) == 0x10ff || (before >> 32 & 0x38ff) == 0x10ff ||
           (before >> 16 & 0x38ff) == 0x10ff || (before >> 8 & 0x38ff) == 0x10ff;
}

/* Finds the row that applies to offset `low` of a page; n >= 1 rows from `at`. Ten steps without a branch. */
static inline __attribute__((always_inline)) bpf_u32 unwind_search(const struct unwind_row *rows, bpf_u32 at,
                                                                   bpf_u32 n, bpf_u32 low)
{
    for (int i = 0; i < 10; i++) {
        bpf_u32 half = n >> 1;
        bpf_u32 middle = rows[(at + half) & (UNWIND_SHARD_ROWS - 1)].low;
        /* All ones when the middle row is not above `low`. */
        bpf_u32 take = (bpf_u32)(((bpf_s64)middle - (bpf_s64)low - 1) >> 63);
        at += half & take;
        n -= half;
    }
    return rows[at & (UNWIND_SHARD_ROWS - 1)].rule;
}

#endif
