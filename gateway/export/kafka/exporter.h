/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kafka/NAME: metrics or raw profiles to a topic, each message an OTLP request as the Collector's kafka
 * exporter and receiver have it, with the resource as its key.
 */
#ifndef GATEWAY_EXPORT_KAFKA_EXPORTER_H
#define GATEWAY_EXPORT_KAFKA_EXPORTER_H

#include "gateway/export/shared/sending.h"
#include "proto/kafka/settings.h"

struct kafka_settings {
    struct kafka_connection connection;
    struct sending_settings sending;
    const char *profiles_topic, *metrics_topic;
    enum kafka_encoding profiles_encoding, metrics_encoding;
    bool profiles_by_resource, metrics_by_resource;
    struct settings_strings key_attributes;
    enum { KAFKA_SARAMA_COMPAT, KAFKA_MURMUR2 } hasher;
    enum { KAFKA_ACKS_ALL, KAFKA_ACKS_LEADER } acks;
    enum { KAFKA_PLAIN, KAFKA_GZIP, KAFKA_SNAPPY, KAFKA_LZ4, KAFKA_ZSTD } compression;
    uint32_t compression_level;
    uint32_t flush_max_messages;
    uint64_t linger_ns;
    bool creates_topics;
    enum export_temporality temporality;
};

extern const struct exporter_kind exporter_kafka;

#endif
