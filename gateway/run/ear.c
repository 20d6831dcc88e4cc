/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/run/ear.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>

#include "proto/base/macros.h"
#include "proto/io/signal.h"

void ear_hold_ends(bool holds)
{
    io_signal_hold(SIGTERM, holds);
    io_signal_hold(SIGINT, holds);
}

/* It is not cancelled: it may be in a handler, which has locks. */
static void *listen_for_signals(void *context)
{
    const struct ear *ear = context;
    struct pollfd over = {.fd = ear->over, .events = POLLIN};
    sigset_t all_but;
    pthread_sigmask(SIG_SETMASK, NULL, &all_but);
    sigdelset(&all_but, SIGHUP);
    sigdelset(&all_but, SIGTERM);
    sigdelset(&all_but, SIGINT);
    while (ppoll(&over, 1, NULL, &all_but) < 0 && errno == EINTR)
        ;
    return NULL;
}

bool ear_begin(struct ear *ear)
{
    ear->over = eventfd(0, EFD_CLOEXEC);
    if (ear->over >= 0 && pthread_create(&ear->thread, NULL, listen_for_signals, ear) == 0)
        return true;
    cleanup_close(&ear->over);
    return false;
}

void ear_end(struct ear *ear)
{
    eventfd_write(ear->over, 1);
    pthread_join(ear->thread, NULL);
    cleanup_close(&ear->over);
}
