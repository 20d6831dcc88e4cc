/* SPDX-License-Identifier: Apache-2.0 */
/* The variable of OTEP 4947, as a library of its own or linked into context.c: built with every way there is
 * to reach thread-local storage. */
__attribute__((visibility("default"))) __thread void *volatile otel_thread_ctx_v1;

/* Storage of its own before and behind, so that the offset is none by chance. */
static __thread char before[100];
static __thread char behind[1000];

__attribute__((visibility("default"))) void context_publish(void *record)
{
    __asm__ volatile("" : : "r"(before), "r"(behind) : "memory");
    otel_thread_ctx_v1 = record;
}
