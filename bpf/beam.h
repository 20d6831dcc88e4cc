/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * What the step of Erlang's BEAM (beam_step.h) has to know of a process, and the words it sends; both sides.
 *
 * BeamAsm (erts/emulator/beam/jit/x86, from OTP 25 on) has two stacks. Erlang code runs on its process's own,
 * in that process's heap: rsp is there, rbx in the scheduler's registers (ErtsSchedulerRegisters), which lie
 * on the thread's stack, and r13 is the process. To call C it goes over to the thread's stack, always to the
 * same place, where those registers begin; its own stack pointer is meanwhile in rbp, or in the process if
 * who is called looks at the stack. The one it goes back by says which.
 *
 * A process's stack has values and return addresses: of a value the lowest two bits are never 00, and return
 * addresses are multiples of 4. Numbers that are no values are there at times. It ends with the address of
 * normal_exit.
 */
#ifndef BPF_BEAM_H
#define BPF_BEAM_H

#include "bpf/runtimes.h"

/* Over runtime_place.word. */
struct beam_place {
    bpf_u64 main, main_size;     /* process_main as it was generated: the scheduler's loop, of no function */
    bpf_u64 shared, shared_size; /* all code that is no module's */
    bpf_u64 text, text_size;     /* the emulator's own */
    bpf_u64 call;                /* there, process_main, which goes on with `main`; 0: not known */
    bpf_u64 exit;                /* normal_exit */
    bpf_u32 frame;               /* of process_main: from the registers' begin to where it was called … */
    bpf_u16 registers;           /* … and to what rbx points to */
    bpf_u8 stop;                 /* Process.stop, a stack pointer */
    bpf_u8 has_pointers;         /* frame pointers are on the stack, too: erts_frame_layout */
    /* The kernel side does not look at these. */
    bpf_u64 ranges;     /* struct ranges r[3] */
    bpf_u64 atoms;      /* erts_atom_table.seg_table */
    bpf_u64 names;      /* of `shared`: a struct debug_info, … */
    bpf_u32 names_size; /* … and its size */
    bpf_u16 functions;  /* BeamCodeHeader.functions */
    bpf_u16 version[4];
};
_Static_assert(sizeof(struct beam_place) <= 8 * RUNTIME_PLACE_WORDS, "fits");

/* Of a scheduler's ErtsSchedulerData, in all versions known: where its registers are, and its process. */
#define BEAM_SCHEDULER_REGISTERS 0u
#define BEAM_SCHEDULER_PROCESS   0xa8u

/* Who ends has no stack any more, and may have freed its memory: what calls C for that is normal_exit, and
 * continue_exit, which is made behind it (beamasm_init()). Both are in so many bytes, on OTP 25. */
#define BEAM_EXIT_SIZE 192u

/* What process_main's registers are a multiple of. */
#define BEAM_ALIGNED 64u

/* A word: `where` is an address in the code, `file` is of the 8 bytes that are there, so that it is not taken
 * for other code at the same place. */
#define BEAM_RECURSION    1u /* `where`: frames that are the same as the one before were gone past here */
#define BEAM_COOKIE(code) ((bpf_u32)((code)*0x9e3779b97f4a7c15ull >> 32))

/* Behind words told ahead, in `file` of the one that is 0: where their scheduler has its registers, and what
 * rbp is there, if it was gone by; else 0. Who comes there knows whether they are those. */
#define BEAM_CHECK(base, rbp) BEAM_COOKIE((base) ^ (rbp) << 1)

#endif
