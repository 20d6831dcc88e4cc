/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that has the structures of Perl 5.36 with threads, as far as they are looked at: two threads,
 * each with an interpreter of its own under one key, in `first` and in `second` of no package, called from
 * <main>. For C libraries that no Perl is to be had with.
 */
#include <pthread.h>
#include <stdint.h>
#include <string.h>

#define EXPORTED __attribute__((visibility("default")))

EXPORTED const char *version = "This is perl 5, version 36, subversion 0 (%-p) built for nothing";
EXPORTED pthread_key_t PL_thr_key;

struct name {
    uint32_t hash, length;
    char text[16];
};

struct perl {
    uint64_t interpreter[128], info[8], contexts[1][13], code[2], body[16], glob[2], of_glob[16], cops[2][8],
        op[8], endless[4];
    struct name name;
};

EXPORTED void Perl_runops_standard(void)
{
    for (volatile uint64_t n = 0;; n++)
        ;
}
static void (*volatile run)(void) = Perl_runops_standard;

static void *begin(void *of)
{
    static struct perl all[2];
    const char *text = of;
    struct perl *p = &all[text[0] == 's'];
    p->name.length = (uint32_t)strlen(text);
    memcpy(p->name.text, text, p->name.length);
    p->of_glob[4] = (uint64_t)&p->name;
    p->glob[0] = (uint64_t)p->of_glob;
    p->glob[1] = 9ull << 32;
    p->body[7] = (uint64_t)p->glob;
    p->code[0] = (uint64_t)p->body;
    p->code[1] = 13ull << 32;
    for (uint64_t i = 0; i < 2; i++) {
        p->cops[i][4] = (10 + i) << 32 | 0xc3;
        p->cops[i][6] = (uint64_t) "/srv/threads.pl";
    }
    p->contexts[0][0] = 9;
    p->contexts[0][2] = (uint64_t)p->cops[0];
    p->contexts[0][6] = (uint64_t)p->op;
    p->contexts[0][9] = (uint64_t)p->code;
    p->info[1] = (uint64_t)p->contexts;
    p->op[4] = 1;
    p->interpreter[1] = (uint64_t)p->op;
    p->interpreter[0xd0 / 8] = (uint64_t)p->cops[1];
    p->interpreter[0xe0 / 8] = (uint64_t)p->info;
    p->interpreter[0x2f8 / 8] = (uint64_t)p->endless;
    pthread_setspecific(PL_thr_key, p->interpreter);
    run();
    return 0;
}

int main(void)
{
    pthread_t second;
    pthread_key_t other;
    pthread_key_create(&other, 0); /* the first one has a number that is hardly one */
    pthread_key_create(&PL_thr_key, 0);
    pthread_create(&second, 0, begin, "second");
    begin("first");
}
