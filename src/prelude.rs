//! Everything that handlers and routes are written with: `use receipted::prelude::*;`. It leaves out what starts a program.

pub use crate::{
    handler::{
        App, Applied, BoxError, CloudEvent, Decode, Delivery, EffectExt, Failure, Finding, Framed, FromDelivery, FromRef, Headers,
        IntoFailure, IntoPart, Invalid, Json, Operation, Raw, ReadyApp, Record, Reply, Route, State, Text, ask, by, dead_letter,
        destination_deduplicates, fixed, header, hold, json, json_fields, operation, record_key, skip, unchecked, whole_value,
    },
    protocol::{
        key::Alphabet,
        policy::{Lanes, OnConflict, OnExpired},
    },
};
