/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting anew in the same process (SIGHUP), and back: what only a start shows (an address that is taken, a
 * folder that may not be written, a file without the function to probe) must not end a profiler that ran. So
 * the text of the file it ran with goes over, in memory, and who cannot start with the new one starts with
 * that.
 *
 * It goes by variables of the environment, which execve leaves: nothing else tells such a start from others.
 */
#ifndef SENDER_RUN_AGAIN_H
#define SENDER_RUN_AGAIN_H

#include "proto/base/bytes.h"

/* Executes the program anew; `text` of its file is kept for that. Returns only if that fails: -errno. */
int again_start(char **argv, struct bytes text);

/* It could not start. If it ran before, this does not return: it starts with the text that it had. */
void again_back(char **argv);

/* It has started: nobody goes back any more. */
void again_settle(void);

#endif
