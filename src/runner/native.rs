//! Owns the one place that reads a client's record natively: header names need not be UTF-8, and the safe accessor panics on such a
//! one, which would end the consumer thread on a poison record for ever.
#![allow(unsafe_code, reason = "the binding has no accessor that survives a header name that is not UTF-8")]

use crate::protocol::park::Payload;
use rdkafka::{Message, bindings, message::BorrowedMessage, types::RDKafkaRespErr};
use std::{ffi::CStr, ptr, slice};

/// Copies a record out of the client, whole, in place of what `payload` held.
pub(super) fn copy(record: &BorrowedMessage<'_>, payload: &mut Payload) {
    set(&mut payload.key, record.key());
    set(&mut payload.value, record.payload());
    headers(record, &mut payload.headers);
    payload.timestamp = record.timestamp().to_millis();
}

fn set(place: &mut Option<Vec<u8>>, bytes: Option<&[u8]>) {
    match (place.as_mut(), bytes) {
        (Some(own), Some(bytes)) => {
            own.clear();
            own.extend_from_slice(bytes);
        }
        _ => *place = bytes.map(<[u8]>::to_vec),
    }
}

fn headers(record: &BorrowedMessage<'_>, headers: &mut Vec<(Vec<u8>, Option<Vec<u8>>)>) {
    let mut list = ptr::null_mut();
    // SAFETY: the record lives as long as the borrow; librdkafka keeps the list with it and only lends it here.
    if unsafe { bindings::rd_kafka_message_headers(record.ptr(), &raw mut list) } != RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR {
        return headers.clear();
    }
    for index in 0.. {
        let (mut name, mut value, mut size) = (ptr::null(), ptr::null(), 0);
        // SAFETY: `list` is valid (above); librdkafka answers an index past the end with an error and writes nothing.
        let found = unsafe { bindings::rd_kafka_header_get_all(list, index, &raw mut name, &raw mut value, &raw mut size) };
        if found != RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR {
            return headers.truncate(index);
        }
        // SAFETY: a header's name ends with a zero byte, and its value has `size` bytes or is null; both live with the record.
        let (name, value) =
            unsafe { (CStr::from_ptr(name).to_bytes(), (!value.is_null()).then(|| slice::from_raw_parts(value.cast::<u8>(), size))) };
        match headers.get_mut(index) {
            Some((own, own_value)) => {
                own.clear();
                own.extend_from_slice(name);
                set(own_value, value);
            }
            None => headers.push((name.to_vec(), value.map(<[u8]>::to_vec))),
        }
    }
}
