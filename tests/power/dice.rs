//! Owns random numbers that a seed repeats.

pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64, throw: u64) -> Self {
        let mut dice = Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ throw.wrapping_mul(0xD1B5_4A32_D192_ED03));
        dice.next();
        dice
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end.max(1) as u64).expect("below the end")
    }

    /// How likely something is, in percent: rarely, often, or nearly always.
    pub fn chance(&mut self) -> usize {
        [4, 15, 50, 85, 96][self.below(5)]
    }

    pub fn is(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

/// From `RECEIPTED_SEED`, else from anywhere.
pub fn seed() -> u64 {
    let given = std::env::var("RECEIPTED_SEED").ok().map(|seed| seed.parse().expect("RECEIPTED_SEED is a number"));
    given.unwrap_or_else(|| uuid::Uuid::new_v4().as_u64_pair().0 >> 32)
}
