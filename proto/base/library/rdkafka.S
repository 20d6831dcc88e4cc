/* SPDX-License-Identifier: Apache-2.0 */
/* receivers.kafka and exporters.kafka (proto/kafka). The linker says which are missing here. */
#define NAME library_rdkafka
#define SONAME "librdkafka.so.1"
#define FUNCTIONS \
    rd_kafka_assignment, rd_kafka_assignment_lost, rd_kafka_commit, rd_kafka_conf_destroy, \
    rd_kafka_conf_interceptor_add_on_new, rd_kafka_conf_new, rd_kafka_conf_set, rd_kafka_conf_set_error_cb, \
    rd_kafka_conf_set_events, rd_kafka_conf_set_log_cb, rd_kafka_conf_set_offset_commit_cb, \
    rd_kafka_conf_set_opaque, rd_kafka_conf_set_rebalance_cb, rd_kafka_consumer_close, rd_kafka_consumer_poll, \
    rd_kafka_destroy, rd_kafka_err2str, rd_kafka_error_destroy, rd_kafka_error_string, rd_kafka_event_destroy, \
    rd_kafka_event_error, rd_kafka_event_error_string, rd_kafka_event_message_next, rd_kafka_event_type, \
    rd_kafka_get_watermark_offsets, rd_kafka_incremental_assign, rd_kafka_incremental_unassign, \
    rd_kafka_interceptor_add_on_request_sent, rd_kafka_interceptor_add_on_response_received, \
    rd_kafka_last_error, rd_kafka_message_destroy, rd_kafka_message_errstr, rd_kafka_new, \
    rd_kafka_pause_partitions, rd_kafka_poll_set_consumer, rd_kafka_produce, rd_kafka_purge, \
    rd_kafka_queue_cb_event_enable, rd_kafka_queue_destroy, rd_kafka_queue_get_consumer, \
    rd_kafka_queue_get_main, rd_kafka_queue_poll, rd_kafka_resume_partitions, rd_kafka_seek_partitions, \
    rd_kafka_subscribe, rd_kafka_topic_destroy, rd_kafka_topic_name, rd_kafka_topic_new, \
    rd_kafka_topic_partition_list_add, rd_kafka_topic_partition_list_copy, \
    rd_kafka_topic_partition_list_destroy, rd_kafka_topic_partition_list_new, rd_kafka_version
#include "proto/base/library/on_demand.inc"
