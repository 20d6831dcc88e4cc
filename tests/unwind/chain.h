/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the programs of this folder share: a chain of calls that stays a chain, and a leaf that burns CPU.
 *
 * Each program loops `main → … → chain_a → chain_b → chain_c → spin` until it is killed. The names are the
 * ones tests/e2e/test_unwind.py looks for.
 */
#ifndef TESTS_UNWIND_CHAIN_H
#define TESTS_UNWIND_CHAIN_H

#define KEPT __attribute__((noinline, noclone, used))
#ifdef __clang__
#undef KEPT
#define KEPT __attribute__((noinline, used))
#endif

/* In C++ a static function's name would be mangled. */
#ifdef __cplusplus
#define CHAIN_FN extern "C" KEPT
#else
#define CHAIN_FN KEPT static
#endif

/* Stops the compiler from turning the last call into a jump. */
#define NOT_A_TAIL __asm__ volatile("" ::: "memory")

static volatile unsigned long sink;

CHAIN_FN void spin(unsigned long n)
{
    for (unsigned long i = 0; i < n; i++)
        sink += i;
}

CHAIN_FN void chain_c(unsigned long n)
{
    spin(n);
    NOT_A_TAIL;
}

CHAIN_FN void chain_b(unsigned long n)
{
    chain_c(n);
    NOT_A_TAIL;
}

CHAIN_FN void chain_a(unsigned long n)
{
    chain_b(n);
    NOT_A_TAIL;
}

#endif
