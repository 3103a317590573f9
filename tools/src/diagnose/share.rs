//! How many values are a candidate's twin's.

use serde::Serialize;

/// Values that equal the twin's, bit for bit, of so many.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Share {
    /// Values.
    pub count: usize,
    /// Those that are the twin's.
    pub equal: usize,
}

/// How many more standard deviations of what differs by chance are significant.
pub(super) const SIGNIFICANT: f64 = 3.0;

impl std::ops::AddAssign for Share {
    fn add_assign(&mut self, other: Share) {
        self.count += other.count;
        self.equal += other.equal;
    }
}

impl Share {
    /// Whether it is more than another by more than what differs by chance.
    pub(super) fn exceeds(self, other: Share) -> bool {
        let unequal = (self.count - self.equal) + (other.count - other.equal);
        self.equal as f64 - other.equal as f64 > SIGNIFICANT * (unequal as f64).sqrt()
    }
}
