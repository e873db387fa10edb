//! Owns reading a few fields out of a JSON text without building the rest of it: what names a record is read for every one that comes,
//! the rest only for those whose handler runs. It does not own what the fields mean.

use serde::{
    Deserialize,
    de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::Value;
use std::fmt;

/// Pointers that are read together, at most: a bit each.
const POINTERS_MAX: usize = 64;

/// JSON pointers (RFC 6901) that are read in one pass.
#[derive(Debug)]
pub(super) struct Pointers(Vec<Pointer>);

#[derive(Debug)]
struct Pointer {
    text: String,
    /// Each with where it begins in the text, its slash included.
    tokens: Vec<(usize, String)>,
}

impl Pointer {
    fn new(text: String) -> Option<Self> {
        let plain = |token: &str| token.replace("~1", "/").replace("~0", "~");
        let slashes = text.match_indices('/').map(|(at, _)| at);
        let tokens = slashes.zip(text.split('/').skip(1)).map(|(at, token)| (at, plain(token))).collect();
        (text.is_empty() || text.starts_with('/')).then_some(Self { text, tokens })
    }

    fn token(&self, depth: usize) -> Option<&str> {
        self.tokens.get(depth).map(|(_, token)| token.as_str())
    }

    /// What is left of it at this depth, a pointer itself.
    fn rest(&self, depth: usize) -> &str {
        self.tokens.get(depth).map_or("", |(at, _)| &self.text[*at..])
    }
}

impl Pointers {
    /// None where one is no pointer, or where there are too many.
    pub(super) fn new(pointers: impl IntoIterator<Item = String>) -> Option<Self> {
        let mut texts: Vec<String> = pointers.into_iter().collect();
        texts.sort_unstable();
        texts.dedup();
        let all: Vec<Pointer> = texts.into_iter().map(Pointer::new).collect::<Option<_>>()?;
        (all.len() <= POINTERS_MAX).then_some(Self(all))
    }

    /// The place of a pointer among what [`Pointers::read`] returns.
    pub(super) fn place(&self, pointer: &str) -> Option<usize> {
        self.0.iter().position(|own| own.text == pointer)
    }

    /// The values at the pointers, as `Value::pointer` finds them. Text that no pointer leads to is checked to be JSON, and not looked
    /// into: a number that is too large or a string that is not UTF-8 is found there by who reads it.
    pub(super) fn read(&self, json: &[u8]) -> Result<Vec<Option<Value>>, serde_json::Error> {
        let mut found = vec![None; self.0.len()];
        let mut reader = serde_json::Deserializer::from_slice(json);
        let all = Set(u64::MAX.checked_shr(64 - u32::try_from(self.0.len()).unwrap_or(64)).unwrap_or(0));
        At { pointers: &self.0, live: all, depth: 0, found: &mut found }.deserialize(&mut reader)?;
        reader.end()?;
        Ok(found)
    }
}

/// Which pointers.
#[derive(Clone, Copy)]
struct Set(u64);

impl Set {
    fn iter(self) -> impl Iterator<Item = usize> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let at = left.trailing_zeros() as usize;
            left &= left.checked_sub(1)?;
            Some(at)
        })
    }

    fn which(self, is: impl Fn(usize) -> bool) -> Self {
        Self(self.iter().filter(|at| is(*at)).fold(0, |set, at| set | 1 << at))
    }
}

/// A value that some pointers lead to or through.
struct At<'a> {
    pointers: &'a [Pointer],
    live: Set,
    depth: usize,
    found: &'a mut [Option<Value>],
}

impl At<'_> {
    fn token(&self, pointer: usize) -> Option<&str> {
        self.pointers[pointer].token(self.depth)
    }

    /// One step further, with those pointers that go there. A name that comes again counts as the last of them.
    fn step(&mut self, live: Set) -> At<'_> {
        live.iter().for_each(|at| self.found[at] = None);
        At { pointers: self.pointers, live, depth: self.depth + 1, found: &mut *self.found }
    }
}

impl<'de> DeserializeSeed<'de> for At<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        if self.live.0 == 0 {
            return IgnoredAny::deserialize(reader).map(drop);
        }
        if !self.live.iter().any(|at| self.token(at).is_none()) {
            return reader.deserialize_any(self);
        }
        let value = Value::deserialize(reader)?;
        for at in self.live.iter() {
            self.found[at] = value.pointer(self.pointers[at].rest(self.depth)).cloned();
        }
        Ok(())
    }
}

impl<'de> Visitor<'de> for At<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some(live) = map.next_key_seed(Name(&self))? {
            map.next_value_seed(self.step(live))?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<(), A::Error> {
        for index in 0.. {
            let live = self.live.which(|at| self.token(at).and_then(as_index) == Some(index));
            if items.next_element_seed(self.step(live))?.is_none() {
                return Ok(());
            }
        }
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

/// An object's name: which pointers go on under it.
struct Name<'a, 'b>(&'a At<'b>);

impl<'de> DeserializeSeed<'de> for Name<'_, '_> {
    type Value = Set;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Set, D::Error> {
        reader.deserialize_str(self)
    }
}

impl Visitor<'_> for Name<'_, '_> {
    type Value = Set;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<Set, E> {
        Ok(self.0.live.which(|at| self.0.token(at) == Some(name)))
    }
}

/// An array's index: decimal digits without a sign or a zero before them.
fn as_index(token: &str) -> Option<usize> {
    let digits = token.bytes().all(|digit| digit.is_ascii_digit()) && (token.len() == 1 || !token.starts_with('0'));
    if digits { token.parse().ok() } else { None }
}
