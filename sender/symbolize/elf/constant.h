/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A text among what a program only reads: where a version is in no symbol, but in what the program says of
 * itself.
 */
#ifndef SENDER_SYMBOLIZE_ELF_CONSTANT_H
#define SENDER_SYMBOLIZE_ELF_CONSTANT_H

#include "sender/symbolize/elf/dynamic.h"

/* What stands behind the text, so much of it, is looked at. */
#define CONSTANT_BEHIND 32u

/* Looks for `text`, in segments that are not written to, the last first (constants lie behind the code), 16
 * MiB of each. What is behind its first place in a segment, with a NUL after what the file has of it, goes to
 * `read`, which says whether that is it; false: no segment has it. */
bool constant_find(const struct dynamic *d, struct bytes text, bool (*read)(const char *behind, void *user),
                   void *user);

#endif
