//! Owns the one place that reads a client's record natively: header names need not be UTF-8, and the safe accessor panics on such a
//! one, which would end the consumer thread on a poison record for ever.
#![allow(unsafe_code, reason = "the binding has no accessor that survives a header name that is not UTF-8")]

use crate::protocol::park::Payload;
use rdkafka::{Message, bindings, message::BorrowedMessage, types::RDKafkaRespErr};
use std::{ffi::CStr, ptr, slice};

/// Copies a record out of the client, whole.
pub(super) fn payload(record: &BorrowedMessage<'_>) -> Payload {
    Payload {
        key: record.key().map(<[u8]>::to_vec),
        value: record.payload().map(<[u8]>::to_vec),
        headers: headers(record),
        timestamp: record.timestamp().to_millis(),
    }
}

fn headers(record: &BorrowedMessage<'_>) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
    let mut list = ptr::null_mut();
    // SAFETY: the record lives as long as the borrow; librdkafka keeps the list with it and only lends it here.
    if unsafe { bindings::rd_kafka_message_headers(record.ptr(), &raw mut list) } != RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR {
        return Vec::new();
    }
    let mut headers = Vec::new();
    loop {
        let (mut name, mut value, mut size) = (ptr::null(), ptr::null(), 0);
        // SAFETY: `list` is valid (above); librdkafka answers an index past the end with an error and writes nothing.
        let found = unsafe { bindings::rd_kafka_header_get_all(list, headers.len(), &raw mut name, &raw mut value, &raw mut size) };
        if found != RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR {
            return headers;
        }
        // SAFETY: a header's name ends with a zero byte, and its value has `size` bytes or is null; both live with the record.
        let header = unsafe {
            let value = (!value.is_null()).then(|| slice::from_raw_parts(value.cast::<u8>(), size).to_vec());
            (CStr::from_ptr(name).to_bytes().to_vec(), value)
        };
        headers.push(header);
    }
}
