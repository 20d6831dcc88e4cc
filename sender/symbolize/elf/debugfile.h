/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The separate debug file of a program or library, found as gdb finds it: by build id, or by .gnu_debuglink
 * (gdb manual, "Debugging Information in Separate Files").
 *
 * A container's files are looked at from inside its own root, so that its links cannot lead out of it. Only
 * what root or the owner of the program has put there is believed: who runs a program chooses its root.
 */
#ifndef SENDER_SYMBOLIZE_ELF_DEBUGFILE_H
#define SENDER_SYMBOLIZE_ELF_DEBUGFILE_H

#include "sender/symbolize/elf/elf.h"

/* A file without a build id is known by the CRC of all of it: larger ones are not tried. */
#define DEBUGFILE_CRC_MAX (64u << 20)

/* Opens it: below `root` ("/", or "/proc/PID/root"), for the file at `path` there (absolute; "" if not known:
 * then only by build id). It has the file's build id, or, if that has none, the CRC the file says. A
 * descriptor, or -ENOENT, or -errno. */
int debugfile_open(const char *root, const char *path, const struct source *s, const struct elf *elf);

/* Opens the file that dwz -m has put the common parts of several into: named, with its build id, by
 * .debug_sup (DWARF 5, section 7.3.6) or .gnu_debugaltlink (dwz(1)) of the file `s`, which is open at `fd`;
 * below `root`, from that file's folder on. A descriptor, or -ENOENT, or -errno. */
int debugfile_open_alt(const char *root, int fd, const struct source *s, const struct elf *elf);

/* Whether a file is the debug file of one that has a build id; who pays for reading that, pays. `of` NULL:
 * nobody does. */
bool debugfile_matches(int fd, const struct elf *elf, const struct source *of);

#endif
