/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many files the process may have open (setrlimit(2), RLIMIT_NOFILE). Shells and systemd start a process
 * with 1024 of a much larger number that it may have, for the sake of select(2), which nothing here uses.
 */
#ifndef GATEWAY_RUN_OPEN_FILES_H
#define GATEWAY_RUN_OPEN_FILES_H

#include <stdint.h>

/* Raises the limit to `wanted`, or as far as it may be raised; never lowers it. Returns the limit there is
 * then. Before there are threads. */
uint64_t open_files_raise(uint64_t wanted);

#endif
