//! The parity program and its library: lenses, metrics, verdicts, reports.
