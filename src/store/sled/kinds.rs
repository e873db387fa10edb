//! Owns the names of what a group writes, for the crash points on its way to the disk. Built with them alone.

use super::{
    entries::Entries,
    format::{Key, Meta},
};
use crate::store::draft::Note;

/// Each kind once, in the order of its first appearance.
pub(super) fn kinds(notes: &[Note], entries: &Entries) -> Vec<&'static str> {
    let of_entry = |(key, _): &(Vec<u8>, Vec<u8>)| match Key::parse(key)? {
        Key::Meta(Meta::Store) => Some("store"),
        Key::Meta(Meta::Binding) => Some("binding"),
        Key::Claim(_) => Some("claim"),
        Key::Stop(_) => Some("stop"),
        _ => None,
    };
    let of_note = |note: &Note| match note {
        Note::Admission { .. } => Some("admission"),
        Note::Fact { .. } => Some("fact"),
        Note::Doubt { .. } => Some("doubt"),
        Note::Verdict { .. } => Some("verdict"),
        Note::Park { .. } => Some("park"),
        Note::Held { .. } => Some("held"),
        Note::End { .. } => Some("end"),
        Note::Closed { .. } => Some("closed"),
        Note::Marks(..) => Some("marks"),
        Note::Total(..) | Note::Incident(..) => None,
    };
    let mut kinds = Vec::new();
    for kind in entries.0.iter().filter_map(of_entry).chain(notes.iter().filter_map(of_note)) {
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    kinds
}
