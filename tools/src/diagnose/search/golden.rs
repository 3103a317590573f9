//! The least value of a function of one number.

/// Of a function that has one minimum on an interval, its least value and where that is, once the interval was shortened so
/// many times to 0.618 of itself (golden-section search, Kiefer 1953).
pub(super) fn least((mut low, mut high): (f64, f64), sections: usize, f: impl Fn(f64) -> f64) -> (f64, f64) {
    let share = (5.0_f64.sqrt() - 1.0) / 2.0;
    let inner = |low: f64, high: f64| [high - share * (high - low), low + share * (high - low)];
    let [mut a, mut b] = inner(low, high);
    let [mut of_a, mut of_b] = [f(a), f(b)];
    for _ in 0..sections {
        if of_a < of_b {
            (high, b, of_b) = (b, a, of_a);
            a = inner(low, high)[0];
            of_a = f(a);
        } else {
            (low, a, of_a) = (a, b, of_b);
            b = inner(low, high)[1];
            of_b = f(b);
        }
    }
    if of_a < of_b { (of_a, a) } else { (of_b, b) }
}
