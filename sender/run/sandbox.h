/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System calls that profsend has no use for, refused once it has started: what hostile bytes might make of it
 * can neither trace nor write into other processes, begin programs' helpers, mount, load modules, change who
 * it is, or open what the kernel's newer queues would open for it.
 *
 * A list of what is refused, not of what is allowed, for libraries and their versions differ in what they
 * call; the systemd unit allows a list, and there this does nothing. execve stays: SIGHUP begins anew by it,
 * under the same filter.
 */
#ifndef SENDER_RUN_SANDBOX_H
#define SENDER_RUN_SANDBOX_H

/* For all threads there are and will be. What cannot be done is logged. */
void sandbox_enter(void);

#endif
