/* SPDX-License-Identifier: Apache-2.0 */
/* Loads and unloads a library again and again (argv[1] and argv[2] in turn: equal in size), and runs the
 * chain below a function in it, argv[3] times (500), give or take a half: or who looks at equal intervals
 * would always find the same one. */
#include <dlfcn.h>
#include <stdlib.h>

#include "tests/unwind/chain.h"

int main(int argc, char **argv)
{
    int times = argc > 3 ? atoi(argv[3]) : 500;
    for (int i = 0; argc > 2; i++) {
        void *library = dlopen(argv[1 + i % 2], RTLD_NOW);
        void (*enter)(void (*)(unsigned long)) =
            library ? (void (*)(void (*)(unsigned long)))dlsym(library, "plugin_enter") : 0;
        if (!enter)
            return 1;
        for (long j = times / 2 + random() % (times + 1); j > 0; j--)
            enter(chain_a);
        dlclose(library);
    }
    return 1;
}
