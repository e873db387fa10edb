//! Small rules about names.

use receipted::protocol::key::KeyDigest;

#[test]
fn a_digest_reads_hexadecimal_digits_and_nothing_else() {
    let digest = KeyDigest([0xa5; 32]);
    assert_eq!(KeyDigest::parse(&digest.to_string()), Some(digest));
    assert_eq!(KeyDigest::parse(&"+f".repeat(32)), None);
    assert_eq!(KeyDigest::parse(&"a".repeat(63)), None);
    assert_eq!(KeyDigest::parse(&"é".repeat(32)), None);
}
