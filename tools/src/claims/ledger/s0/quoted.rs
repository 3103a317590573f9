//! S0 CH2.3, CH3, CH5, CH9: what was measured elsewhere, and the router's exponentials.

use super::premises::s0;
use crate::claims::claim::Claim;
use crate::claims::hyperparameters::Hyperparameters;
use crate::claims::unit::POINTS;

pub(super) fn claims(m: &Hyperparameters) -> Vec<Claim> {
    let c = &m.config;
    // One for each expert: exp(zₑ) / Σ exp(zⱼ), and 1 / (1 + exp(−zₑ)).
    let [softmax, sigmoid] = [c.num_local_experts; 2];
    vec![
        s0("E0-36", "CH3.1, 3.2", "full attention against the hybrid: 18, 6, 15, 17.6, 3.1, 3.0 and 12 pp")
            .rounded("18", POINTS, 90.0 - 72.0)
            .rounded("6", POINTS, 99.0 - 93.0)
            .rounded("15", POINTS, 60.0 - 45.0)
            .rounded("17.6", POINTS, 44.8 - 27.2)
            .rounded("3.1", POINTS, 59.2 - 56.1)
            .rounded("3.0", POINTS, 97.0 - 94.0)
            .rounded("12", POINTS, 84.0 - 72.0)
            .external()
            .note("differences of scores that the document quotes"),
        s0("E0-37", "CH5.3, 5.5", "sigmoid instead of softmax saves the router 256 exponentials")
            .count("256", softmax - sigmoid)
            .note("a sigmoid is an exponential, too: 256 of either"),
        s0("E0-38", "CH2.3", "deeper and narrower than V4-Flash: 62 layers against 43, 3072 against 4096")
            .count("62", c.num_hidden_layers)
            .count("3072", c.hidden_size)
            .external()
            .note("V4-Flash's 43 and 4096 are quoted"),
        s0("E0-40", "CH9.2", "45.6 tokens per second measured, 100 claimed").external().note("a measurement"),
    ]
}
