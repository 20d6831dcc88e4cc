/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists the BPF programs this kernel has loaded, a line each: name, instructions the verifier processed, and
 * as translated; how often it ran and for how long (kernel.bpf_stats_enabled).
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <bpf/bpf.h>

int main(void)
{
    for (__u32 id = 0; bpf_prog_get_next_id(id, &id) == 0;) {
        struct bpf_prog_info info = {0};
        __u32 size = sizeof info;
        int fd = bpf_prog_get_fd_by_id(id);
        if (fd < 0)
            continue; /* gone meanwhile */
        if (bpf_obj_get_info_by_fd(fd, &info, &size) < 0) {
            fprintf(stderr, "program %u: %s\n", id, strerror(errno));
            return 1;
        }
        printf("%s verified=%u translated=%zu jited=%u runs=%llu ns=%llu\n", info.name, info.verified_insns,
               info.xlated_prog_len / sizeof(struct bpf_insn), info.jited_prog_len,
               (unsigned long long)info.run_cnt, (unsigned long long)info.run_time_ns);
        close(fd);
    }
    return 0;
}
