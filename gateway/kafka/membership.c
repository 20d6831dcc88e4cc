/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/kafka/membership.h"

#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/base/macros.h"
#include "proto/io/loop.h"

#define LEAVE_NS (20 * (uint64_t)NSEC_PER_SEC)

static struct partition *find(const struct membership *m, const rd_kafka_topic_partition_t *of)
{
    return partitions_find(m->partitions, of->topic, of->partition);
}

static void log_error_of(const struct membership *m, rd_kafka_error_t *error)
{
    if (error)
        log_warn("kafka rebalancing group=%s error=\"%s\"", m->group_id, rd_kafka_error_string(error));
    rd_kafka_error_destroy(error);
}

static void take(struct membership *m, rd_kafka_t *rk, const rd_kafka_topic_partition_list_t *list)
{
    for (int i = 0; i < list->cnt; i++)
        if (!find(m, &list->elems[i]) &&
            partitions_add(m->partitions, list->elems[i].topic, list->elems[i].partition) < 0)
            log_error("kafka partition left unread topic=%s partition=%d error=\"out of memory\"",
                      list->elems[i].topic, list->elems[i].partition);
    log_error_of(m, rd_kafka_incremental_assign(rk, list));
    if (m->is_paused)
        rd_kafka_pause_partitions(rk, (rd_kafka_topic_partition_list_t *)list);
    if (list->cnt > 0)
        log_info("kafka partitions came group=%s n=%d of=%u", m->group_id, list->cnt, m->partitions->of.n);
}

static void give(struct membership *m, rd_kafka_t *rk, const rd_kafka_topic_partition_list_t *list,
                 bool is_lost)
{
    for (int i = 0; i < list->cnt; i++) {
        struct partition *p = find(m, &list->elems[i]);
        if (p)
            partitions_remove(m->partitions, p);
    }
    log_error_of(m, rd_kafka_incremental_unassign(rk, list));
    if (list->cnt > 0)
        log_info("kafka partitions went group=%s n=%d left=%u lost=%s", m->group_id, list->cnt,
                 m->partitions->of.n, is_lost ? "true" : "false");
}

void membership_try_to_leave(struct membership *m, rd_kafka_t *rk)
{
    if (!m->leaving)
        return;
    bool is_settled = true, is_counted = true;
    for (uint32_t i = 0; i < m->partitions->of.n; i++) {
        const struct partition *p = m->partitions->of.p[i];
        if (!p->is_leaving)
            continue;
        is_counted &= p->n_working == 0;
        is_settled &= partition_is_settled(p);
    }
    const bool is_late = io_loop_now(m->loop) >= m->leave_by;
    if (!is_settled && !is_late) {
        if (is_counted)
            m->wants_flush(m->context);
        return;
    }
    if (!is_settled)
        log_warn(
            "kafka partitions go before their counts are committed: who takes them counts those again group=%s",
            m->group_id);
    m->lost += is_settled ? 0 : (uint64_t)m->leaving->cnt;
    rd_kafka_topic_partition_list_t *list = take_ptr(m->leaving);
    give(m, rk, list, false);
    rd_kafka_topic_partition_list_destroy(list);
}

static void begin_to_leave(struct membership *m, rd_kafka_t *rk, const rd_kafka_topic_partition_list_t *list)
{
    m->leaving = rd_kafka_topic_partition_list_copy(list);
    m->leave_by = io_loop_now(m->loop) + LEAVE_NS;
    for (int i = 0; i < list->cnt; i++) {
        struct partition *p = find(m, &list->elems[i]);
        if (!p)
            continue;
        p->is_leaving = true;
        partition_sweep(p, true);
    }
    membership_try_to_leave(m, rk);
}

void membership_changes(struct membership *m, rd_kafka_t *rk, rd_kafka_resp_err_t what,
                        const rd_kafka_topic_partition_list_t *list)
{
    m->was_assigned |= what == RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS;
    m->rebalances++;
    if (what == RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS) {
        take(m, rk, list);
    } else if (rd_kafka_assignment_lost(rk)) {
        m->lost += (uint64_t)list->cnt;
        log_warn("kafka partitions lost: others count from the last commit again group=%s n=%d", m->group_id,
                 list->cnt);
        give(m, rk, list, true);
    } else {
        begin_to_leave(m, rk, list);
    }
}

void membership_ends(struct membership *m, rd_kafka_t *rk, rd_kafka_resp_err_t what,
                     const rd_kafka_topic_partition_list_t *list)
{
    const bool is_assigned = what == RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS;
    m->was_assigned |= is_assigned;
    rd_kafka_error_destroy(is_assigned ? rd_kafka_incremental_assign(rk, list)
                                       : rd_kafka_incremental_unassign(rk, list));
}

void membership_pause(struct membership *m, rd_kafka_t *rk, bool is_paused)
{
    rd_kafka_topic_partition_list_t *list;
    if (m->is_paused == is_paused || rd_kafka_assignment(rk, &list) != 0)
        return;
    if (is_paused)
        rd_kafka_pause_partitions(rk, list);
    else
        rd_kafka_resume_partitions(rk, list);
    rd_kafka_topic_partition_list_destroy(list);
    m->is_paused = is_paused;
}

void membership_release(struct membership *m)
{
    if (m->leaving)
        rd_kafka_topic_partition_list_destroy(take_ptr(m->leaving));
}
