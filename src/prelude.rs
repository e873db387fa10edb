//! Everything that handlers and routes are written with: `use receipted::prelude::*;`. It leaves out what starts a program.

pub use crate::{
    handler::{
        App, Applied, BoxError, Delivery, EffectExt, Failure, Finding, FromDelivery, FromRef, Headers, IntoFailure, IntoPart, Invalid,
        Json, Operation, Raw, ReadyApp, Record, Reply, Route, State, ask, by, dead_letter, destination_deduplicates, fixed, header, hold,
        json, json_fields, operation, record_key, skip, unchecked, whole_value,
    },
    protocol::{
        key::Alphabet,
        policy::{Lanes, OnConflict, OnExpired},
    },
};
