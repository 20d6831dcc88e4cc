/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who pays for what is done for a user's programs: he himself. But whoever has an account has 65,536
 * subordinate users with it (subuid(5)), any of which his programs can be: those of a range are one, the
 * first of them, or shares by user would be as many as he likes. Any thread.
 */
#ifndef SENDER_FOREIGN_PAYER_H
#define SENDER_FOREIGN_PAYER_H

#include <stdint.h>

/* Ranges of the file; more are not read. */
#define PAYER_RANGES 4096u
/* Whether the file has changed is looked at this often. */
#define PAYER_AGAIN_NS 60000000000u

uint32_t payer_of(uint32_t user);

/* What is read from now on, by default /etc/subuid. It stays the caller's. Before other threads ask. */
void payer_file(const char *path);

#endif
