//! Bytes that may never change: keys, provider keys and fingerprints that were given out once are looked up for ever.

use proptest::prelude::*;
use receipted::protocol::{
    fingerprint::Fingerprint,
    key::{Alphabet, DERIVATION_VERSION, KeyDigest, OperationKey, hex},
    secret::{Derivation, KeySecret},
};
use serde_json::json;

fn key(tenant: &str, operation: &str, id: &[&str]) -> OperationKey {
    let id: Vec<String> = id.iter().map(ToString::to_string).collect();
    OperationKey::new(tenant, operation, &id, Alphabet::Printable).expect("a valid key")
}

struct Vector {
    key: OperationKey,
    canonical: &'static str,
    digest: &'static str,
    /// Text and UUID for generation 0 and 1.
    provider: [(&'static str, &'static str); 2],
}

fn vectors() -> Vec<Vector> {
    vec![
        Vector {
            key: key("acme", "charge.v1", &["INV-1001"]),
            canonical: "010000000461636d65000000096368617267652e76310000000100000008494e562d31303031",
            digest: "3c814cdff624b39fd827d7aa49258e6f16f0f7bee0cc0d0fee6d670ec6438645",
            provider: [
                ("rk1-6a90a87818bf79503b6196504bfac5191f209c4f8fd86bbc", "6a90a878-18bf-8950-bb61-96504bfac519"),
                ("rk1-f560c0fc97f9e6d1bbeb985113b298b00240395a120da091", "f560c0fc-97f9-86d1-bbeb-985113b298b0"),
            ],
        },
        Vector {
            key: key("acme", "charge.v2", &["INV-1001"]),
            canonical: "010000000461636d65000000096368617267652e76320000000100000008494e562d31303031",
            digest: "02a6b750498acf2445046de775dad6ae5d9982ddc5e6ead87dd85ba1d5bf5e70",
            provider: [
                ("rk1-c91b72a8152b30c01a058e9f91c7ce0984a5020f0d034f5d", "c91b72a8-152b-80c0-9a05-8e9f91c7ce09"),
                ("rk1-2a6bfe4796805165aaa383dd8788fae24ae22105e2b75021", "2a6bfe47-9680-8165-aaa3-83dd8788fae2"),
            ],
        },
        Vector {
            key: key("südwind", "notify.v12", &["order 7", "line 3"]),
            canonical: "010000000873c3bc6477696e640000000a6e6f746966792e76313200000002000000076f726465722037000000066c696e652033",
            digest: "b7efc3c45d111139e3434b39eaa2a47f7c44766f8bb3c05eb53c1f51455876e2",
            provider: [
                ("rk1-9bfd801b1e6f2d352de0311ae3d76429170c86f4a7ec0c39", "9bfd801b-1e6f-8d35-ade0-311ae3d76429"),
                ("rk1-5c291c062fcaf9095cb389a7475947864899d6c799d280f9", "5c291c06-2fca-8909-9cb3-89a747594786"),
            ],
        },
    ]
}

#[test]
fn canonical_bytes_and_digests_are_fixed() {
    assert_eq!(DERIVATION_VERSION, 1);
    for vector in vectors() {
        assert_eq!(hex(&vector.key.canonical_bytes()), vector.canonical);
        assert_eq!(vector.key.digest().to_string(), vector.digest);
        assert_eq!(KeyDigest::parse(vector.digest), Some(vector.key.digest()));
        // The definition, once more: BLAKE3 of version, and every field with its length before it.
        let mut bytes = vec![1];
        for field in [vector.key.tenant(), vector.key.operation()] {
            bytes.extend((field.len() as u32).to_be_bytes());
            bytes.extend(field.as_bytes());
        }
        bytes.extend((vector.key.id().len() as u32).to_be_bytes());
        for part in vector.key.id() {
            bytes.extend((part.len() as u32).to_be_bytes());
            bytes.extend(part.as_bytes());
        }
        assert_eq!(hex(&bytes), vector.canonical);
        assert_eq!(blake3::hash(&bytes).to_hex().as_str(), vector.digest);
    }
}

#[test]
fn digests_with_a_secret_are_fixed_and_provider_keys_know_nothing_of_it() {
    let secret = KeySecret::new(&[1; 32]).expect("a secret");
    assert_eq!(secret.fingerprint().to_string(), "3142d6e6f70723b12710bed3ea02451c");
    let key = key("acme", "charge.v1", &["INV-1"]);
    let digest = Derivation::of(Some(&secret)).digest(&key);
    assert_eq!(digest.to_string(), "a476c88430199c1ca9c7da400f345d43376617f747288cc68865602185cbee86");
    assert_eq!(Derivation::of(None).digest(&key), key.digest());
    // The definition, once more.
    let made = blake3::derive_key("receipted 2026 key secret digests v1", &[1; 32]);
    assert_eq!(blake3::keyed_hash(&made, &key.canonical_bytes()).to_hex().as_str(), digest.to_string());
    for (bytes, is_taken) in [(0, false), (31, false), (32, true), (4096, true), (4097, false)] {
        assert_eq!(KeySecret::new(&vec![7; bytes]).is_ok(), is_taken, "{bytes} bytes");
    }
}

#[test]
fn provider_keys_are_fixed() {
    for vector in vectors() {
        for (generation, (text, uuid)) in (0..).zip(vector.provider) {
            let key = vector.key.provider_key(generation);
            assert_eq!((key.text.as_str(), key.uuid.to_string().as_str()), (text, uuid));
            assert_eq!((key.text.len(), key.uuid.get_version_num()), (52, 8));
        }
    }
}

#[test]
fn fingerprints_are_fixed() {
    let digest = |fingerprint| match fingerprint {
        Fingerprint::Digest(digest) => hex(&digest),
        Fingerprint::Unchecked => "unchecked".into(),
    };
    let value = json!({ "account": "DE-7", "cents": 1999, "note": null, "at": { "b": 1.5, "a": [true, "ü"] } });
    let fields = |pointers: &[&str]| digest(Fingerprint::of_fields(&value, pointers).expect("comparable"));
    assert_eq!(fields(&["/account", "/cents"]), "fc0e9fbf082973c0fbe24d0e44175254");
    assert_eq!(fields(&["/cents", "/account"]), "fc0e9fbf082973c0fbe24d0e44175254");
    assert_eq!(fields(&["/account", "/cents", "/missing"]), "fc0e9fbf082973c0fbe24d0e44175254");
    assert_eq!(fields(&["/account", "/cents", "/note"]), "48ce10123f3fc062fed63091ebbe19d5");
    assert_eq!(fields(&["/at"]), "6acec9e1f94e8ed95c2b938ed752527f");
    assert_eq!(digest(Fingerprint::of_value(br#"{"b":1,"a":[1.0,"x"]}"#)), "14f9a2bead51bcf2d3a4f599cb629212");
    assert_eq!(digest(Fingerprint::of_value(br#" { "a" : [ 1 , "x" ], "b" : 1e0 } "#)), "14f9a2bead51bcf2d3a4f599cb629212");
    assert_eq!(digest(Fingerprint::of_value(b"\x00not json\xff")), "03f4aec37efaad97a22a6a76d532afaa");
    assert_eq!(digest(Fingerprint::of_value(b"")), "6cfc951aeed52b3e1febd8a1611431cb");
    let large = json!({ "n": 9_007_199_254_740_993_u64 });
    assert_eq!(digest(Fingerprint::of_fields(&large, &["/n"]).expect("comparable")), "85db080a98b834b3232bc8659b8a4c7f");
}

/// Parts that are easily confused: they share pieces, and hold what a joined string would use between parts.
fn part() -> impl Strategy<Value = String> {
    prop_oneof!["[ab]{1,3}", "[ab]{0,2}[:/|.\u{1F600} ][ab]{0,2}".prop_filter("not empty", |part| !part.is_empty()), "\\PC{1,12}",]
}

fn triple() -> impl Strategy<Value = (String, String, Vec<String>)> {
    (part(), "[ab.]{1,3}\\.v[12]", prop::collection::vec(part(), 1..4))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_two_triples_share_bytes(one in triple(), other in triple()) {
        let made = |(tenant, operation, id): &(String, String, Vec<String>)| {
            OperationKey::new(tenant, operation, id, Alphabet::Printable).expect("a valid key")
        };
        let (first, second) = (made(&one), made(&other));
        prop_assert_eq!(one == other, first.canonical_bytes() == second.canonical_bytes());
        prop_assert_eq!(one == other, first.digest() == second.digest());
        prop_assert_eq!(one == other, first.provider_key(0) == second.provider_key(0));
        prop_assert!(first.provider_key(0) != first.provider_key(1));
    }

    /// The bytes give the triple back, so that no two can share them: a stronger claim than any number of pairs.
    #[test]
    fn the_triple_can_be_read_back_from_its_bytes((tenant, operation, id) in triple()) {
        let key = OperationKey::new(&tenant, &operation, &id, Alphabet::Printable).expect("a valid key");
        let bytes = key.canonical_bytes();
        let mut rest = &bytes[1..];
        let number = |rest: &mut &[u8]| {
            let (head, tail) = rest.split_at(4);
            *rest = tail;
            u32::from_be_bytes(head.try_into().expect("four bytes")) as usize
        };
        let field = |rest: &mut &[u8]| {
            let length = number(rest);
            let (head, tail) = rest.split_at(length);
            *rest = tail;
            String::from_utf8(head.to_vec()).expect("text")
        };
        prop_assert_eq!(field(&mut rest), tenant);
        prop_assert_eq!(field(&mut rest), operation);
        let parts = number(&mut rest);
        let read: Vec<String> = (0..parts).map(|_| field(&mut rest)).collect();
        prop_assert_eq!(read, id);
        prop_assert!(rest.is_empty());
    }

    #[test]
    fn a_fingerprint_sees_every_change_of_a_chosen_field_and_no_other(a in 0..50_i64, b in 0..50_i64, spaces in 0..3_usize) {
        let print = |field: i64, other: i64| {
            let text = format!("{{\"other\":{other},{}\"cents\":{field}}}", " ".repeat(spaces));
            let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
            Fingerprint::of_fields(&value, &["/cents"]).expect("comparable")
        };
        prop_assert_eq!(print(a, 1) == print(b, 2), a == b);
        prop_assert_eq!(print(a, 1).differs(print(b, 1)), a != b);
    }
}
