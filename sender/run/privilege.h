/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rights profsend runs with: those it uses, and no other from the moment it samples.
 */
#ifndef SENDER_RUN_PRIVILEGE_H
#define SENDER_RUN_PRIVILEGE_H

#include <stdint.h>

/* Drops every capability but the needed ones and `also`, out of the bounding set too, and every way to gain
 * new ones. What the process does not have it does not get: the first call logs what is therefore missing in
 * the samples, as it does what else of the machine hides processes. What cannot be dropped stays, and is
 * logged. CAP_SYS_ADMIN stays with the first thread where kernel.perf_event_paranoid is above 2 (Debian,
 * Ubuntu). Capabilities are a thread's own: called before the first thread is made, with what starting takes
 * besides, and then in each thread when it has started. */
void privilege_drop(uint64_t also);

/* For the bounding set to be narrowed again when all has started (PR_CAPBSET_DROP); for a thread to raise its
 * priority, and for user probes (perf_event_open(2): the uprobe PMU asks for
 * CAP_SYS_ADMIN). */
#define PRIVILEGE_PCAP  (UINT64_C(1) << 8)
#define PRIVILEGE_NICE  (UINT64_C(1) << 23)
#define PRIVILEGE_PROBE (UINT64_C(1) << 21)

#endif
