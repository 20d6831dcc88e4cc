/* SPDX-License-Identifier: Apache-2.0 */
/* Loaded by late.c: calls back into the program. */
void plugin_enter(void (*back)(unsigned long));

/* Two that differ in this and nothing else are equal in size, but not in what a frame takes: who takes one
 * for the other, loaded where the other was, does not come back to main. */

__attribute__((noinline)) void plugin_enter(void (*back)(unsigned long))
{
    volatile char room[64 * PAD];
    room[0] = 0;
    back(200000);
    __asm__ volatile("" ::: "memory");
}
