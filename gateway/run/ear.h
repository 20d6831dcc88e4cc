/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who hears SIGHUP, SIGTERM and SIGINT while the control loop knows what to do with them. They wait in all
 * other threads; one thread does nothing else than to be interrupted by them, from when the loop has its
 * handlers until it has them no more: without a handler they would end the process. A reloader may send
 * SIGHUP too early or too late, and who asks twice to end must not change the exit code.
 */
#ifndef GATEWAY_RUN_EAR_H
#define GATEWAY_RUN_EAR_H

#include <pthread.h>
#include <stdbool.h>

struct ear {
    pthread_t thread;
    int over; /* can be read: it is */
};

/* In the thread that begins all others, before these: SIGTERM and SIGINT wait (or do no longer) in it and in
 * what it begins. */
void ear_hold_ends(bool holds);

/* False: no thread can be had, and nothing is to be ended. */
bool ear_begin(struct ear *ear);
void ear_end(struct ear *ear);

#endif
