//! Owns a look at what a group has committed, without joining it: for adopting an existing group.

use super::{
    Error, group,
    settings::{BROKER_WAIT, Settings},
};
use rdkafka::{Offset, TopicPartitionList, consumer::Consumer};
use std::collections::BTreeMap;

/// The offsets that the group has committed, by partition; partitions without one are left out. Blocks for at most half a minute.
///
/// # Errors
/// When the brokers do not answer, or there is no such topic.
pub fn committed(settings: &Settings, topic: &str) -> Result<BTreeMap<i32, i64>, Error> {
    let (consumer, metadata) = group::look(settings, Some(topic))?;
    let found = metadata.topics().iter().find(|found| found.name() == topic && found.error().is_none());
    let found = found.filter(|found| !found.partitions().is_empty()).ok_or_else(|| Error::NoTopic { topic: topic.into() })?;
    let mut list = TopicPartitionList::with_capacity(found.partitions().len());
    for partition in found.partitions() {
        list.add_partition(topic, partition.id());
    }
    let committed = consumer.committed_offsets(list, BROKER_WAIT).map_err(|source| Error::broker("read committed offsets", &source))?;
    // Plain numbers: the client cannot be dropped while one of its lists lives.
    let mut offsets = BTreeMap::new();
    for element in committed.elements() {
        if let Offset::Offset(offset) = element.offset() {
            offsets.insert(element.partition(), offset);
        }
    }
    Ok(offsets)
}
