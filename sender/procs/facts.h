/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Single facts out of the texts under /proc/PID. All of them are written, in part, by the process itself.
 */
#ifndef SENDER_PROCS_FACTS_H
#define SENDER_PROCS_FACTS_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/bytes.h"

/* The container's id in the text of /proc/PID/cgroup: the last path element of a line, 64 hex digits (docker,
 * containerd, CRI-O, podman) or 32 and a number (ECS), maybe with a prefix before '-' and ".scope" behind.
 * None: .p is NULL. Points into the text. */
struct bytes facts_container_id(struct bytes cgroup);

/* The value of a variable in the text of /proc/PID/environ (NUL-separated NAME=value). None: .p is NULL. */
struct bytes facts_variable(struct bytes environment, const char *name);

/* The program that a dynamic linker was asked to run, by the text of /proc/PID/cmdline (NUL-separated): what
 * ld.so(8) takes for it, as it was said there. None: .p is NULL. Points into the text. */
struct bytes facts_linked_program(struct bytes command_line);

/* The arguments in the text of /proc/PID/cmdline as one line of `room` bytes at most, as UTF-8 ('?' stands
 * for a byte of no character). "***" stands for the value of an argument whose name says that it is secret
 * ("--password=x", "--api-token x", "DB_PASSWORD=x", "Authorization: x", "mysql -px"), for what is behind a
 * secret's name within one, to its end ("?token=x", "user=a password=x"), and for passwords of URLs. Returns
 * its length. */
size_t facts_command_line(struct bytes command_line, char *to, size_t room);

/* Whether a path is a dynamic linker's of glibc or musl. */
bool facts_is_linker(struct bytes path);

/* Field 22 of /proc/PID/stat: when it began, in clock ticks since boot (proc_pid_stat(5)). 0 or -EINVAL. */
int facts_start_ticks(struct bytes stat, uint64_t *ret);

/* A number in /proc/PID/status, the first behind its label ("PPid", "Uid"). False: not there. */
bool facts_status(struct bytes status, const char *label, uint32_t *ret);

/* The pid as the process itself sees it: the last number of NSpid in /proc/PID/status. 0: not there. */
uint32_t facts_namespace_pid(struct bytes status);

#endif
