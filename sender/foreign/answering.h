/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the file system of an open file answers. Behind FUSE, a network or a stack of layers there may be a
 * server that never does, and who opens or reads a file there waits for ever: so a thread of its own is sent
 * ahead. Files on block devices answer, and nobody is asked.
 */
#ifndef SENDER_FOREIGN_ANSWERING_H
#define SENDER_FOREIGN_ANSWERING_H

#include <stdbool.h>

/* How long an answer may take. */
#define ANSWERING_WAIT_NS 50000000u
/* And how long it is believed. What stops to answer meanwhile does keep us waiting. */
#define ANSWERING_TTL_NS 5000000000u
/* Threads that wait for an answer; above it everything new is taken to be silent. */
#define ANSWERING_WAITING_MAX 4

/* Asks by a descriptor, which may be a place only (O_PATH). False: it did not answer in time, and is not
 * asked again before it has. Any thread. */
bool foreign_answers(int fd);

#endif
