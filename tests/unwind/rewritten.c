/* SPDX-License-Identifier: Apache-2.0 */
/* Loads a library (argv[1]) and runs the chain below a function in it: `before` calls it until SIGUSR1, when
 * another one (argv[2], of the same size) is written over it; then `after` does. No mapping changes by that.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "tests/unwind/chain.h"

typedef void enter_fn(void (*back)(unsigned long));

static char other[1 << 20];
static volatile sig_atomic_t is_time;

static void on_signal(int number)
{
    is_time = 1;
}

KEPT static void before(enter_fn *enter)
{
    while (!is_time)
        enter(chain_a);
    NOT_A_TAIL;
}

KEPT static void after(enter_fn *enter)
{
    for (;;)
        enter(chain_a);
}

int main(int argc, char **argv)
{
    int from = open(argv[2], O_RDONLY), to = open(argv[1], O_WRONLY);
    ssize_t n = read(from, other, sizeof other);
    void *library = dlopen(argv[1], RTLD_NOW);
    enter_fn *enter = library ? (enter_fn *)dlsym(library, "plugin_enter") : 0;
    if (!enter || n <= 0)
        return 1;
    signal(SIGUSR1, on_signal);
    before(enter);
    if (pwrite(to, other, n, 0) == n)
        after(enter);
    return 1;
}
