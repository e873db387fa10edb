//! Small rules about names.

use receipted::protocol::{
    key::{Alphabet, Error, ID_PARTS_MAX, KeyDigest, OperationKey},
    note::cut,
    settle::AttemptName,
    start::Metadata,
};

#[test]
fn a_digest_reads_hexadecimal_digits_and_nothing_else() {
    let digest = KeyDigest([0xa5; 32]);
    assert_eq!(KeyDigest::parse(&digest.to_string()), Some(digest));
    assert_eq!(KeyDigest::parse(&"+f".repeat(32)), None);
    assert_eq!(KeyDigest::parse(&"a".repeat(63)), None);
    assert_eq!(KeyDigest::parse(&"é".repeat(32)), None);
}

#[test]
fn an_id_has_one_part_to_sixteen() {
    let of = |parts: usize| OperationKey::new("acme", "charge.v1", &vec!["x".to_string(); parts], Alphabet::Token);
    assert!((1..=ID_PARTS_MAX).all(|parts| of(parts).is_ok()));
    for parts in [0, ID_PARTS_MAX + 1] {
        assert_eq!(of(parts).map(drop), Err(Error::Parts { parts }));
    }
}

/// What stands beside a committed offset, and what other programs may have written there.
#[test]
fn the_metadata_of_a_commit_is_ours_in_full_or_not_at_all() {
    let text = Metadata::text("store", "nonce");
    assert_eq!(Metadata::parse(&text), Metadata::Ours { store_id: "store".into(), nonce: "nonce".into() });
    let cuts = (0..text.len()).filter(|at| *at <= text.len() - "nonce".len()).map(|at| text[..at].to_string());
    for other in cuts.chain([format!("{text} x"), format!(" {text}"), "x store nonce".into(), text.replace(' ', "  ")]) {
        assert_eq!(Metadata::parse(&other), Metadata::Other, "{other:?}");
    }
}

#[test]
fn a_text_is_cut_before_the_character_that_does_not_fit() {
    assert_eq!((cut("aé", 3), cut("aé", 2), cut("aé", 1), cut("é", 1)), ("aé", "a", "a", ""));
}

#[test]
fn the_name_of_an_attempt_reads_as_it_is_written() {
    for text in ["3", "3/7"] {
        assert_eq!(text.parse::<AttemptName>().expect("a name").to_string(), text);
    }
    for text in ["", "x", "3/", "/7", "-1"] {
        assert!(text.parse::<AttemptName>().is_err(), "{text:?}");
    }
}
