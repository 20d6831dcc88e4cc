/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is read of processes beside what always is.
 */
#ifndef SENDER_PROCS_WISHES_H
#define SENDER_PROCS_WISHES_H

#include <stdbool.h>
#include <stdint.h>

struct procs_wishes {
    bool command_line;           /* process.command_line: facts_command_line, IDENTITY_TEXT_MAX of it */
    bool owner;                  /* process.owner: the name of its real user, by /etc/passwd */
    const char *const *variable; /* process.environment_variable.NAME: these of its environment */
    uint32_t n_variables;
};

#endif
